"""Each example runs, warnings as errors, and its closing check holds."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

# In reading order. Each is small enough to be run as it stands.
EXAMPLES = [
    "01_a_gradient.py",
    "02_plain_numpy.py",
    "03_a_new_layer.py",
    "04_generated_and_by_hand.py",
    "05_second_order.py",
    "06_attention_weights.py",
    "07_train.py",
    "08_generate.py",
    "09_a_hidden_transposition.py",
    "10_a_forgotten_gain.py",
    "11_a_mask_too_late.py",
    "12_a_layer_compiled.py",
]


@pytest.mark.parametrize("name", EXAMPLES)
def test_example(name, tmp_path):
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH", "")]))
    result = subprocess.run(
        [sys.executable, "-W", "error", str(ROOT / "examples" / name)],
        cwd=tmp_path, env={**os.environ, "PYTHONPATH": path}, stdin=subprocess.DEVNULL,
        capture_output=True, text=True, timeout=300, check=False,
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout.strip(), "an example shows something"
    assert not list(tmp_path.iterdir()), "an example leaves no file behind"
