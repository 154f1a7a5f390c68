def tree_adjoint(g, params, x):
    """Adjoint of tree (golden_files.py).

    g["scaled"] (3,), g["sum"] (), params["layers"][0] (3,), params["w"] (2, 3), x (2, 3) ->
    dparams_layers_0 (3,), dparams_w (2, 3), dx (2, 3); float64
    """
    # adjoint of golden_files.py  return {"sum": np.sum(params["w"] * x), "scaled": params["layers"][0 ...
    dparams_layers_0 = g["scaled"] * x[0]  # (3,)
    dparams_w = g["sum"] * x               # (2, 3)
    dx = g["sum"] * params["w"]            # (2, 3)
    dx[0] += g["scaled"] * params["layers"][0]
    return {"layers": [dparams_layers_0], "w": dparams_w}, dx
