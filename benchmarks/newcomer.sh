#!/usr/bin/env bash
# A newcomer's path, timed: a clean clone, install, demo, a first graph of one's own, a first question from Python.
# bash benchmarks/newcomer.sh     (in a fresh folder and a fresh environment; kernels are compiled anew)
set -euo pipefail
source_=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_QUIET=1 NUMBA_CACHE_DIR="$work/kernels"
unset PYTHONPATH
timed() {
    local name=$1
    shift
    TIMEFORMAT="| $name | %R | %U |"
    time "$@" > "$work/log" 2>&1 || { cat "$work/log"; exit 1; }
}
echo "| step | seconds | of them processor |"
echo "|---|---|---|"
{
    timed "clone" git clone --quiet "$source_" "$work/tempose"
    cd "$work/tempose"
    python3 -m venv "$work/venv"
    source "$work/venv/bin/activate"
    timed "\`pip install .\`" pip install .
    cd "$work"
    timed "\`tempose demo\`, first run" tempose demo
    timed "\`tempose demo\`, again" tempose demo -o again
    timed "first own graph, edge by edge (\`examples/01_build_a_graph.py\`)" python tempose/examples/01_build_a_graph.py first
    cat > question.py <<'PYTHON'
import tempose

solution = tempose.Solution.load("tempose-demo")
print(solution.relative(3, 250).sigma_pos)
PYTHON
    timed "first question from Python: σ between two nodes of the demo" python question.py
} 2>&1
