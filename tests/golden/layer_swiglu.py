import numpy as np


def swiglu_adjoint(g, x, w_gate, w_up, w_down):
    """Adjoint of swiglu (layers.py).

    g (2, 3, 6), x (2, 3, 6), w_gate (6, 7), w_up (6, 7), w_down (7, 6) -> dx (2, 3, 6), dw_gate (6, 7),
    dw_up (6, 7), dw_down (7, 6); float64
    """
    # layers.py  return (silu(x @ w_gate) * (x @ w_up)) @ w_down
    product = x @ w_gate                                                # (2, 3, 7)
    # layers.py  return 0.5 + 0.5 * np.tanh(0.5 * x)
    tanh = np.tanh(0.5 * product)                                       # (2, 3, 7)
    sigmoid = 0.5 + 0.5 * tanh                                          # (2, 3, 7)
    # layers.py  return x * sigmoid(x)
    silu = product * sigmoid                                            # (2, 3, 7)
    # layers.py
    product_2 = x @ w_up                                                # (2, 3, 7)

    # adjoint of layers.py
    dproduct_3 = g @ w_down.T                                           # (2, 3, 7)
    dw_down = np.reshape(silu * product_2, (-1, 7)).T @ np.reshape(g, (-1, 6))  # (7, 6)
    dproduct_2 = dproduct_3 * silu                                      # (2, 3, 7)
    dw_up = np.reshape(x, (-1, 6)).T @ np.reshape(dproduct_2, (-1, 7))  # (6, 7)
    # adjoint of layers.py
    dproduct = dproduct_3 * product_2 * (sigmoid + 0.25 * product * (1 - tanh * tanh))  # (2, 3, 7)
    # adjoint of layers.py
    dx = dproduct_2 @ w_up.T + dproduct @ w_gate.T                      # (2, 3, 6)
    dw_gate = np.reshape(x, (-1, 6)).T @ np.reshape(dproduct, (-1, 7))  # (6, 7)
    return dx, dw_gate, dw_up, dw_down
