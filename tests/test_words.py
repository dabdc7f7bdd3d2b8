"""Sentences are for people: nothing in the package splits or searches one to find out what happened."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import tempose

ROOT = Path(tempose.__file__).parent

# what holds sentences: attributes, functions and methods that make them, and errors as text
ATTRIBUTES = {
    "message",
    "messages",
    "explanation",
    "verdict",
    "reason",
    "cause",
    "notice",
    "notices",
    "advice",
    "gauge",
    "strerror",
}
NAMES = {"why", "because", "message", "explanation", "verdict", "sentence", "notice"}
MAKERS = {"sentence", "sentences", "explain", "describe", "summary", "words", "diagnostics_lines"}
LOOKING = {
    "split",
    "rsplit",
    "partition",
    "rpartition",
    "startswith",
    "endswith",
    "removeprefix",
    "removesuffix",
    "find",
    "rfind",
    "index",
    "rindex",
    "count",
}
PATTERNS = {"match", "search", "fullmatch", "findall", "finditer", "split"}


def _errors(tree: ast.AST) -> set[str]:
    """Names that errors are caught under."""
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.ExceptHandler) and node.name}


class _Reader(ast.NodeVisitor):
    """Finds where a function looks into a sentence, also by way of a variable."""

    def __init__(self, errors: set[str]) -> None:
        self.errors, self.names, self.found = errors, set[str](), list[ast.AST]()

    def is_sentence(self, node: ast.AST) -> bool:
        if isinstance(node, ast.Name):
            return node.id in self.names | NAMES
        if isinstance(node, ast.Attribute):
            return node.attr in ATTRIBUTES or (node.attr == "args" and self._is_error(node.value))
        if isinstance(node, ast.Subscript | ast.Starred):
            return self.is_sentence(node.value)
        if isinstance(node, ast.Call):
            return self._makes_sentence(node)
        return isinstance(node, ast.BinOp) and (self.is_sentence(node.left) or self.is_sentence(node.right))

    def _is_error(self, node: ast.AST) -> bool:
        return isinstance(node, ast.Name) and node.id in self.errors

    def _makes_sentence(self, call: ast.Call) -> bool:
        called = call.func
        if isinstance(called, ast.Name):
            told = called.id in ("str", "repr") and len(call.args) == 1
            return called.id in MAKERS or (told and (self._is_error(call.args[0]) or self.is_sentence(call.args[0])))
        # a sentence made lower case, or joined to others, is still one
        return isinstance(called, ast.Attribute) and (called.attr in MAKERS or self.is_sentence(called.value))

    def _bind(self, target: ast.AST, value: ast.AST) -> None:
        if self.is_sentence(value):
            self.names |= {node.id for node in ast.walk(target) if isinstance(node, ast.Name)}

    def visit_Assign(self, node: ast.Assign) -> None:
        for target in node.targets:
            self._bind(target, node.value)
        self.generic_visit(node)

    def visit_NamedExpr(self, node: ast.NamedExpr) -> None:
        self._bind(node.target, node.value)
        self.generic_visit(node)

    def visit_For(self, node: ast.For) -> None:
        self._bind(node.target, node.iter)
        self.generic_visit(node)

    def visit_comprehension(self, node: ast.comprehension) -> None:
        self._bind(node.target, node.iter)
        self.generic_visit(node)

    def visit_GeneratorExp(self, node: ast.GeneratorExp) -> None:
        for part in node.generators:  # they bind what the element uses
            self.visit(part)
        self.visit(node.elt)

    def visit_ListComp(self, node: ast.ListComp) -> None:
        for part in node.generators:
            self.visit(part)
        self.visit(node.elt)

    def visit_Call(self, node: ast.Call) -> None:
        called = node.func
        if isinstance(called, ast.Attribute):
            by_method = called.attr in LOOKING and self.is_sentence(called.value)
            is_pattern = isinstance(called.value, ast.Name) and called.value.id == "re" and called.attr in PATTERNS
            if by_method or (is_pattern and any(map(self.is_sentence, node.args))):
                self.found.append(node)
        self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> None:
        for how, right in zip(node.ops, node.comparators, strict=True):
            if isinstance(how, ast.In | ast.NotIn) and self.is_sentence(right):
                self.found.append(node)
        self.generic_visit(node)


def _functions(tree: ast.Module) -> Iterator[ast.AST]:
    """Functions and methods, each with those inside it; and what is outside of all."""
    outside = ast.Module([], [])
    todo: list[ast.stmt] = list(tree.body)
    while todo:
        node = todo.pop(0)
        if isinstance(node, ast.ClassDef):
            todo += node.body
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node
        else:
            outside.body.append(node)
    yield outside


def looks_into_sentences(text: str) -> list[str]:
    """The expressions in a module that take a sentence apart."""
    tree = ast.parse(text)
    found = []
    for function in _functions(tree):
        reader = _Reader(_errors(function))
        reader.visit(function)
        found += [ast.unparse(node) for node in reader.found]
    return found


def test_no_prose_is_read_as_data() -> None:
    found = {
        str(path.relative_to(ROOT)): places
        for path in sorted(ROOT.rglob("*.py"))
        if (places := looks_into_sentences(path.read_text(encoding="utf-8")))
    }
    assert found == {}


@pytest.mark.parametrize(
    "code",
    [
        'try:\n    f()\nexcept E as error:\n    cause = str(error).split(": ")[1]',
        'def g():\n    try:\n        f()\n    except E as why:\n        if "minimum" in str(why):\n            pass',
        "def g():\n    try:\n        f()\n    except E as e:\n        a = str(e).lower()\n        return a.startswith('x')",
        'def g(refused):\n    return [i for i, why in refused if "agree" not in why]',
        'def g(x):\n    return x.verdict.removeprefix(f"{x.level}: ")',
        'def g(x):\n    return any("planar" in line for line in x.notices)',
        'def g(x):\n    for line in x.notices:\n        if line.startswith("the graph"):\n            return line',
        'def g(x):\n    return x.gauge.sentence().partition("; ")[2]',
        'def g(x):\n    return re.search("[0-9]+", x.explanation)',
        'def g(x):\n    head, _, tail = (x.reason + ".").partition(",")',
        'class A:\n    def g(self):\n        return "no" not in self.message',
    ],
)
def test_the_check_sees_what_it_forbids(code: str) -> None:
    """Negative control."""
    assert len(looks_into_sentences(code)) == 1


@pytest.mark.parametrize(
    "code",
    [
        'def g(path):\n    return str(path).endswith(".tum")',
        'def g(x):\n    return x.status == "solved" and x.kind in ("a", "b")',
        'def g(x):\n    print(x.verdict + "; " + "; ".join(x.notices))',
        'try:\n    f()\nexcept E as error:\n    raise E(f"{error}: try again") from None',
        'def g(lines):\n    return lines[0].split(",")',
    ],
)
def test_the_check_leaves_other_text_alone(code: str) -> None:
    assert looks_into_sentences(code) == []
