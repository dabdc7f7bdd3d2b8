"""COLMAP's files: databases, models and lines of ``cameras.txt``, as plain records of arrays.

| file                                 | read              | written         | record                |
|--------------------------------------|-------------------|-----------------|-----------------------|
| database (SQLite)                    | :mod:`.database`  | by COLMAP       | ``ColmapDatabase``    |
| model, text or binary (``points3D``) | :mod:`.model`     | text            | ``ColmapModel``       |
| ``cameras.txt``, or a file of ``K``  | :mod:`.cameras`   | with the model  | ``ColmapCamera``      |

Pixels have their centre at .5 and are as the camera saw them: lens distortion is still in them. pycolmap, which is optional,
is needed for cameras with distortion only: its readers can be made to crash, so that files are read here.
"""
