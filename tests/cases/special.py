"""Rows for minigrad/special.py and minigrad/rules/special.py, which SciPy's ufuncs find by themselves."""

import scipy.special as sp

import minigrad
from cases import binary, call, only, positive, real, row, unary


def scipy(name, *calls, through=None, **facts):
    """Return the row of a ufunc of scipy.special."""
    ufunc = getattr(sp, name, None) or getattr(sp._ufuncs, name)
    return row(ufunc, *calls, name=f"scipy.special.{name.lstrip('_')}", through=through, **facts)


inside = unary(low=0.15, high=0.85)
above = unary(low=0.4, high=3.0)
pairs = binary(positive, positive)


def of_order(*orders, low=0.4, high=2.5):
    """Return calls of a function whose first arguments have no derivative."""
    return [call(*orders, real(*shape, low=low, high=high)) for shape in ((3, 2), (4,), ())]


ROWS = [
    row(minigrad.erf, unary(), unary(low=-8, high=8), name="minigrad.erf"),
    scipy("erf", unary(), complex=True),
    scipy("erfc", unary(), complex=True),
    scipy("erfcx", unary(), complex=True),
    scipy("erfi", unary(), complex=True),
    scipy("erfinv", inside),
    scipy("erfcinv", unary(low=0.2, high=1.8)),
    scipy("dawsn", unary(), complex=True),
    scipy("wofz", unary(), complex=True),
    scipy("ndtr", unary(), complex=True),
    scipy("log_ndtr", unary(), complex=True),
    scipy("ndtri", inside),
    scipy("ndtri_exp", unary(low=-3, high=-0.2)),
    scipy("expit", unary()),
    scipy("log_expit", unary()),
    scipy("logit", inside),
    scipy("exp2", unary()),
    scipy("exp10", unary()),
    scipy("expm1", unary(), complex=True),
    scipy("exprel", unary()),
    scipy("log1p", unary(low=-0.7), complex=True),
    scipy("cbrt", unary()),
    scipy("cosm1", unary()),
    scipy("sindg", unary(low=10, high=80)),
    scipy("cosdg", unary(low=10, high=80)),
    scipy("tandg", unary(low=10, high=80)),
    scipy("cotdg", unary(low=10, high=80)),
    scipy("powm1", pairs),
    scipy("wrightomega", unary(), complex=True),
    scipy("round", unary()),
    scipy("xlogy", pairs, complex=True),
    scipy("xlog1py", pairs, complex=True),
    scipy("entr", above),
    scipy("rel_entr", pairs),
    scipy("kl_div", pairs, float32=1e-3),
    scipy("huber", binary(only(0.3, 0.8), only(0.9, 2)), binary(only(2.1, 3), real)),
    scipy("pseudo_huber", binary(positive, real), float32=1e-3),
    scipy("gamma", above, unary(low=-0.9, high=-0.1), complex=True),
    scipy("gammaln", above, unary(low=-0.9, high=-0.1)),
    scipy("loggamma", above),
    scipy("rgamma", above),
    scipy("gammasgn", unary()),
    scipy("psi", above, unary(low=-0.9, high=-0.1), float32=1e-3),
    scipy("_zeta", of_order(2.5), call(3, real(2)), through=lambda s, q: sp.zeta(s, q)),
    scipy("beta", pairs, float32=1e-3),
    scipy("betaln", pairs, float32=1e-3),
    scipy("binom", binary(only(2.2, 4), only(0.4, 1.8))),
    scipy("poch", pairs, float32=1e-3),
    scipy("gammainc", of_order(1.3)),
    scipy("gammaincc", of_order(1.3)),
    scipy("betainc", of_order(0.7, 1.3, low=0.1, high=0.9)),
    scipy("betaincc", of_order(0.7, 1.3, low=0.1, high=0.9)),
    scipy("expi", above, complex=True),
    scipy("exp1", above, complex=True),
    scipy("expn", of_order(3)),
    scipy("sici", above, complex=True),
    scipy("shichi", above),
    scipy("fresnel", unary(), complex=True),
    scipy("spence", above, call(real(3, low=0.999, high=1.001))),
    scipy("ellipk", inside, call(real(3, low=-0.01, high=0.01))),
    scipy("ellipe", inside, call(real(3, low=-0.01, high=0.01))),
    scipy("hyp0f1", of_order(1.5), complex=True),
    scipy("hyp1f1", of_order(0.7, 1.3)),
    scipy("hyp2f1", of_order(0.7, 1.3, 2.2, low=-0.8, high=0.8)),
    scipy("j0", unary()),
    scipy("j1", unary(), call(real(3, low=-0.01, high=0.01))),
    scipy("jv", of_order(0.7), complex=True),
    scipy("y0", above),
    scipy("y1", above),
    scipy("yn", of_order(2)),
    scipy("yv", of_order(0.7), complex=True),
    scipy("hankel1", of_order(0.7), complex=True),
    scipy("hankel2", of_order(0.7), complex=True),
    scipy("i0", unary()),
    scipy("i1", unary()),
    scipy("iv", of_order(0.7), complex=True),
    scipy("k0", above),
    scipy("k1", above),
    scipy("kn", of_order(2)),
    scipy("kv", of_order(0.7), complex=True),
    scipy("i0e", unary()),
    scipy("i1e", unary()),
    scipy("ive", of_order(0.7), complex=True),
    scipy("k0e", above),
    scipy("k1e", above),
    scipy("kve", of_order(0.7), complex=True),
]
