"""The loss curve as a picture."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from minigrad_nn.extras import require

__all__ = ["plot_losses"]


def plot_losses(path: str | Path, losses: Sequence[float], validation: Sequence[tuple[int, float]]) -> None:
    """Draw the loss of every step, its running mean, and the validation losses (step, loss) into a PNG file.

    Raises
    ------
    MissingExtraError
        If matplotlib is not installed.
    """
    require("matplotlib", "drawing the loss curve")
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # draws without a display
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot(xlabel="step", ylabel="loss (nats per character)")
    steps = np.arange(1, len(losses) + 1)
    axes.plot(steps, losses, color="tab:blue", alpha=0.25, linewidth=0.8)
    span = max(1, len(losses) // 50)
    smooth = np.convolve(losses, np.full(span, 1 / span), mode="valid")
    axes.plot(steps[span - 1 :], smooth, color="tab:blue", label=f"training, mean of {span}")
    if validation:
        axes.plot(*zip(*validation, strict=True), "o-", color="tab:orange", label="validation")
    axes.legend()
    axes.grid(alpha=0.3)
    figure.savefig(path, dpi=150)
