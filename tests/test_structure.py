"""The shape of the project: which file may import which, what is public, and that README.md is right."""

import ast
import contextlib
import importlib
import io
import re
import runpy
import subprocess
import sys
import types
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")

# A file or folder may import those before it in its list, never one after it.
LAYERS = {
    "minigrad": [
        "errors", "shapes", "slices", "tree", "fingerprint", "gradients", "op", "special", "zero", "require", "rules",
        "leaving", "protocol", "views", "arraylike", "tensor", "array", "tape", "run", "transforms", "custom",
        "jacobians", "program", "deferred", "names", "trace", "adjoint", "debug", "rewriter", "simplify", "commandline",
        "emit", "compiler", "check", "testing", "__main__", "__init__",
    ],
    "minigrad_nn": [
        "precision", "layers", "masks", "rope", "attention", "tiled", "adjoints", "model", "init", "schedule", "optim",
        "tokenizer", "data", "extras", "checkpoint", "generate", "plot", "process", "train", "resume", "cli",
        "__main__", "__init__",
    ],
}
PACKAGES = sorted(LAYERS)


def source_files(package: str) -> list[Path]:
    """Every Python file of a package or of any other folder of the project, in order."""
    return sorted((ROOT / package).rglob("*.py"))


def layer_of(path: Path, package: str) -> str:
    """'tape' for minigrad/tape.py, 'rules' for any file in minigrad/rules/."""
    return Path(path.relative_to(ROOT / package).parts[0]).stem


def is_module(name: str) -> bool:
    """Whether the dotted name is a file or a folder of this project."""
    path = ROOT.joinpath(*name.split("."))
    return path.with_suffix(".py").is_file() or (path / "__init__.py").is_file()


def imported_names(path: Path) -> list[tuple[str, int]]:
    """The absolute dotted name and the line of everything a file imports, inside its functions too."""
    package = path.relative_to(ROOT).parent.parts
    found = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found += [(alias.name, node.lineno) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else ()
            origin = ".".join([*above, *([node.module] if node.module else [])])
            found += [(f"{origin}.{alias.name}", node.lineno) for alias in node.names]
    return found


@pytest.mark.parametrize("package", PACKAGES)
def test_every_file_has_its_place_in_the_layers(package):
    found, listed = {layer_of(path, package) for path in source_files(package)}, set(LAYERS[package])
    assert found == listed, f"LAYERS: add {sorted(found - listed)}, remove {sorted(listed - found)}"


@pytest.mark.parametrize("package", PACKAGES)
def test_imports_go_one_way(package):
    order = LAYERS[package]
    wrong = []
    for path in source_files(package):
        importer = layer_of(path, package)
        for name, line in imported_names(path):
            if name.split(".")[0] != package:
                continue
            second = [*name.split("."), "__init__"][1]
            imported = second if is_module(f"{package}.{second}") else "__init__"
            if imported != importer and order.index(imported) > order.index(importer):
                wrong.append(f"{path.relative_to(ROOT)}:{line}: {importer} must not import {imported}")
    assert not wrong, "\n".join(wrong)


def test_minigrad_never_imports_minigrad_nn():
    for path in source_files("minigrad"):
        names = {name.split(".")[0] for name, _ in imported_names(path)}
        assert "minigrad_nn" not in names, path


def test_hand_written_adjoints_import_numpy_only():
    """Independence is what makes the comparison with the generated gradient evidence."""
    files = [path for path in source_files("minigrad_nn") if layer_of(path, "minigrad_nn") == "adjoints"]
    assert files
    names = {name for path in files for name, _ in imported_names(path)}
    others = {name for name in names if not name.startswith("minigrad_nn.adjoints.")}
    assert {name.split(".")[0] for name in others} - sys.stdlib_module_names == {"numpy"}


def dotted(node: ast.AST) -> str:
    """'minigrad.tree.map' for that expression, '' for any that is not a chain of names."""
    if isinstance(node, ast.Attribute):
        left = dotted(node.value)
        return f"{left}.{node.attr}" if left else ""
    return node.id if isinstance(node, ast.Name) else ""


def names_used_of_minigrad(path: Path) -> set[str]:
    """Each dotted name below minigrad that a file imports or reads, as minigrad.tree.map."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    used = {name for name, _ in imported_names(path) if name.split(".")[0] == "minigrad"}
    alias = {}                                          # local name -> what it stands for
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for name in node.names:
                if name.name.split(".")[0] == "minigrad":
                    alias[name.asname or "minigrad"] = name.name if name.asname else "minigrad"
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module.split(".")[0] == "minigrad":
            alias |= {name.asname or name.name: f"{node.module}.{name.name}" for name in node.names}
    for node in ast.walk(tree):
        first, *rest = dotted(node).split(".") if isinstance(node, ast.Attribute) else [""]
        if first in alias:
            used.add(".".join([alias[first], *rest]))
    return used


def is_public(name: str) -> bool:
    """Whether each step of the dotted name is listed by the module before it."""
    module = importlib.import_module("minigrad")
    for part in name.split(".")[1:]:
        if not isinstance(module, types.ModuleType):
            return True                                 # an attribute of a public object
        listed = getattr(module, "__all__", None)
        if part.startswith("_") or (listed is not None and part not in listed):
            return False
        module = getattr(module, part)
    return True


def test_the_transformer_uses_only_public_names_of_minigrad():
    private = [
        f"{path.relative_to(ROOT)}: {name}"
        for folder in ("minigrad_nn", "examples")
        for path in source_files(folder)
        for name in sorted(names_used_of_minigrad(path))
        if not is_public(name)
    ]
    assert not private, "\n".join(private)


NUMPY_ALONE = """
import importlib, sys

class OnlyNumpy:
    def find_spec(self, name, path=None, target=None):
        top = name.split(".")[0]
        if top in {"numpy", "minigrad", "minigrad_nn"} or top in sys.stdlib_module_names:
            return
        if not top.startswith("_sysconfigdata"):        # of the standard library too, named after the machine
            raise ModuleNotFoundError(f"{name} is blocked by this test", name=name)

sys.meta_path.insert(0, OnlyNumpy())
for name in sys.argv[1:]:
    importlib.import_module(name)
"""


def run_python(*arguments: str) -> subprocess.CompletedProcess:
    """A fresh interpreter in the project's folder."""
    return subprocess.run([sys.executable, *arguments], cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("package", PACKAGES)
def test_importing_needs_numpy_alone(package):
    """Of every file: each extra is imported where it is used. The loops are not imported but compiled."""
    files = [path.relative_to(ROOT).with_suffix("") for path in source_files(package) if path.parent.name != "loops"]
    names = [".".join(path.parts).removesuffix(".__init__") for path in files if path.stem != "__main__"]
    assert package in names
    result = run_python("-W", "error", "-c", NUMPY_ALONE, *names)
    assert result.returncode == 0, result.stderr


def test_the_block_on_imports_works():
    result = run_python("-c", NUMPY_ALONE, "pytest")
    assert "pytest is blocked by this test" in result.stderr


@pytest.mark.parametrize("package", PACKAGES)
def test_what_is_public_is_listed(package):
    module = importlib.import_module(package)
    listed = list(module.__all__)
    assert listed == sorted(set(listed))
    namespace = {name for name, value in vars(module).items()
                 if not name.startswith("_") and not isinstance(value, types.ModuleType)}
    modules = {name for name in listed if isinstance(getattr(module, name), types.ModuleType)}
    assert namespace | modules == set(listed) - {"__version__"}


def blocks(language: str, text: str = README) -> list[str]:
    """The fenced blocks of one language, in order."""
    return re.findall(rf"^```{language}\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)


def test_readme_has_the_two_commands_that_ci_runs():
    """.ci/run takes the first two ```sh blocks; each must do its own set-up."""
    commands = blocks("sh")
    assert len(commands) == 2
    assert all(command.startswith("python3 -m venv .venv && ") for command in commands)
    assert "-m minigrad_nn train" in commands[0]
    assert "-m pytest" in commands[1]


def readme_examples() -> list[tuple[str, str]]:
    """Every Python block of the README, with what it is said to print."""
    return list(zip(blocks("python"), blocks("text"), strict=True))


@pytest.mark.parametrize(("example", "shown"), readme_examples(), ids=lambda text: text.split()[-1])
def test_readme_examples_print_what_they_show(example, shown, tmp_path):
    assert len(example.splitlines()) <= 24
    path = tmp_path / "example.py"
    path.write_text(example, encoding="utf-8")
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        runpy.run_path(str(path))
    assert printed.getvalue().replace(str(path), "example.py") == shown


def files_on_the_map(text: str) -> dict[str, str]:
    """Path -> what its line says, from a tree drawn with four spaces a level."""
    found, folders = {}, []
    for line in text.splitlines():
        indent, name, description = re.fullmatch(r"( *)(\S+) *(.*)", line).groups()
        depth = len(indent) // 4
        folders = [*folders[:depth], name]
        found["".join(folders)] = description
    return found


def tracked_files() -> list[str]:
    """What git tracks, or a skip where there is no git (an unpacked archive)."""
    try:
        command = ["git", "ls-files", "-z"]
        listing = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"git cannot list the files: {error}")
    return [name for name in listing.stdout.split("\0") if name]


def test_the_map_is_the_tree():
    on_map = files_on_the_map(blocks("", (ROOT / "docs" / "map.md").read_text(encoding="utf-8"))[0])
    tree = {
        str(path.relative_to(ROOT))
        for folder in [*PACKAGES, "examples"]
        for path in source_files(folder)
        if path.name != "__init__.py"                   # the folder's line stands for it
    }
    files = {name for name in on_map if name.endswith(".py")}
    assert files == tree, f"docs/map.md: add {sorted(tree - files)}, remove {sorted(files - tree)}"
    folders = {name.split("/")[0] + "/" for name in tracked_files() if re.match(r"[^./]+/", name)}
    assert {name for name in on_map if name.count("/") == 1 and name.endswith("/")} == folders
    undescribed = [name for name, description in on_map.items() if not description]
    assert not undescribed


def test_no_generated_file_is_tracked():
    generated = re.compile(
        r"(^|/)(__pycache__|\.venv|build|dist|\.(pytest|mypy|ruff)_cache|\.hypothesis|[^/]+\.egg-info)/"
        r"|\.py[cod]$|^checkpoints/|^[^/]+\.(safetensors|png)$"
    )
    assert generated.search("minigrad/__pycache__/op.cpython-311.pyc")
    assert [name for name in tracked_files() if generated.search(name)] == []


def test_every_example_is_run():
    examples = importlib.import_module("test_examples").EXAMPLES
    assert list(examples) == [path.name for path in source_files("examples")]
    assert all(re.match(rf"{number:02}_", name) for number, name in enumerate(examples, start=1))
