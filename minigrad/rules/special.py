"""scipy.special. SciPy is not needed: when one of its ufuncs meets a Tensor, SciPy is there, and `lookup` is asked.

Formulas: NIST Digital Library of Mathematical Functions, https://dlmf.nist.gov (4 elementary, 5 gamma, 6 exponential
integrals, 7 error functions, 8 incomplete gamma and beta, 10 Bessel, 15 hypergeometric, 19 elliptic).
"""

import sys
from math import pi, sqrt

import numpy as np

from minigrad.op import define, missing, refuse
from minigrad.rules.elementwise import LN2, LN10, power_base_adjoint, power_exponent_adjoint

ORDER = missing("the derivative with respect to the order has no closed form")
PARAMETER = missing("the derivative with respect to this parameter has no closed form")

INSTEAD = {
    "scipy.special.logsumexp": "np.logaddexp.reduce(x, axis)",
    "scipy.special.softmax": "np.exp(x - np.logaddexp.reduce(x, axis, keepdims=True))",
    "scipy.special.log_softmax": "x - np.logaddexp.reduce(x, axis, keepdims=True)",
    "scipy.special.polygamma": "(-1)**(n + 1) * math.factorial(n) * scipy.special.zeta(n + 1, x)",
}
"""Functions that are no ufuncs and convert their argument to an array, and what to write instead."""


def lookup(ufunc: np.ufunc) -> bool:
    """Return whether a ufunc is SciPy's; the first time it is seen, define or refuse it."""
    sp = sys.modules.get("scipy.special")
    name = ufunc.__name__
    if sp is None or (getattr(sp, name, None) is not ufunc and name != "_zeta"):  # what sp.zeta(s, q) calls
        return False
    if name in (known := table(sp)):
        inputs, *adjoints = known[name]
        define(ufunc, inputs, *adjoints, kind="elementwise", name=f"scipy.special.{name.lstrip('_')}")
    else:
        refuse("its derivative is not among the rules for scipy.special", ufunc)
    return True


def table(sp):
    """Return the rules by name: the inputs, and an adjoint for each."""
    log, exp, sin, cos = np.log, np.exp, np.sin, np.cos
    degree, two_over_root_pi, root_two_pi = pi / 180, 2 / sqrt(pi), sqrt(2 * pi)

    def zero_for_zero(x, y):
        """Return x / y, and 0 where x is 0."""
        return x / np.where(np.equal(x, 0), 1, y)

    def rgamma_adjoint(g, x, out):
        """-psi(x) / gamma(x); on the left by the reflection formulas, because it is smooth where psi has its poles."""
        left = np.less(np.real(x), 0.5)
        mirrored = np.where(left, 1 - x, 1)
        reflected = sp.gamma(mirrored) * cos(pi * x) - out * sp.psi(mirrored)
        return g * np.where(left, reflected, -out * sp.psi(np.where(left, 1, x)))

    return {
        # error functions and the normal distribution
        "erf": ("x", lambda g, x: g * two_over_root_pi * exp(-x * x)),
        "erfc": ("x", lambda g, x: -g * two_over_root_pi * exp(-x * x)),
        "erfcx": ("x", lambda g, x, out: g * (2 * x * out - two_over_root_pi)),
        "erfi": ("x", lambda g, x: g * two_over_root_pi * exp(x * x)),
        "erfinv": ("x", lambda g, out: g / two_over_root_pi * exp(out * out)),
        "erfcinv": ("x", lambda g, out: -g / two_over_root_pi * exp(out * out)),
        "dawsn": ("x", lambda g, x, out: g * (1 - 2 * x * out)),
        "wofz": ("x", lambda g, x, out: g * (1j * two_over_root_pi - 2 * x * out)),
        "ndtr": ("x", lambda g, x: g * exp(-x * x / 2) / root_two_pi),
        "log_ndtr": ("x", lambda g, x, out: g * exp(-x * x / 2 - out) / root_two_pi),
        "ndtri": ("p", lambda g, out: g * root_two_pi * exp(out * out / 2)),
        "ndtri_exp": ("x", lambda g, x, out: g * root_two_pi * exp(x + out * out / 2)),
        # logistic
        "expit": ("x", lambda g, out: g * out * (1 - out)),
        "log_expit": ("x", lambda g, x: g * sp.expit(-x)),
        "logit": ("p", lambda g, p: g / (p * (1 - p))),
        # elementary
        "exp2": ("x", lambda g, out: g * out * LN2),
        "exp10": ("x", lambda g, out: g * out * LN10),
        "expm1": ("x", lambda g, out: g * (out + 1)),
        "exprel": ("x", lambda g, x: g * sp.hyp1f1(2, 3, x) / 2),
        "log1p": ("x", lambda g, x: g / (1 + x)),
        "cbrt": ("x", lambda g, out: g / (3 * out * out)),
        "cosm1": ("x", lambda g, x: -g * sin(x)),
        "sindg": ("x", lambda g, x: g * degree * sp.cosdg(x)),
        "cosdg": ("x", lambda g, x: -g * degree * sp.sindg(x)),
        "tandg": ("x", lambda g, out: g * degree * (1 + out * out)),
        "cotdg": ("x", lambda g, out: -g * degree * (1 + out * out)),
        "powm1": ("x y", power_base_adjoint, lambda g, x, y, out: power_exponent_adjoint(g, x, y, out + 1)),
        "wrightomega": ("x", lambda g, out: g * out / (1 + out)),
        "round": ("x", None),
        # entropies and losses
        "xlogy": ("x y", lambda g, y: sp.xlogy(g, y), lambda g, x, y: g * zero_for_zero(x, y)),
        "xlog1py": ("x y", lambda g, y: sp.xlog1py(g, y), lambda g, x, y: g * zero_for_zero(x, 1 + y)),
        "entr": ("x", lambda g, x: -g * (log(x) + 1)),
        "rel_entr": ("x y", lambda g, x, y: g * (log(x / y) + 1), lambda g, x, y: -g * (x / y)),
        "kl_div": ("x y", lambda g, x, y: g * log(x / y), lambda g, x, y: g * (1 - x / y)),
        "huber": (
            "delta r",
            lambda g, delta, r: g * np.maximum(np.abs(r) - delta, 0),
            lambda g, delta, r: g * np.clip(r, -delta, delta),
        ),
        "pseudo_huber": (
            "delta r",
            lambda g, delta, r, out: g * (2 * out / delta - r * r / np.hypot(delta, r)),
            lambda g, delta, r: g * delta * r / np.hypot(delta, r),
        ),
        # gamma and beta functions
        "gamma": ("x", lambda g, x, out: g * out * sp.psi(x)),
        "gammaln": ("x", lambda g, x: g * sp.psi(x)),
        "loggamma": ("x", lambda g, x: g * sp.psi(x)),
        "rgamma": ("x", rgamma_adjoint),
        "gammasgn": ("x", None),
        "psi": ("x", lambda g, x: g * sp.zeta(2, x)),
        "_zeta": ("s q", ORDER, lambda g, s, q: -g * s * sp.zeta(s + 1, q)),
        "beta": (
            "a b",
            lambda g, a, b, out: g * out * (sp.psi(a) - sp.psi(a + b)),
            lambda g, a, b, out: g * out * (sp.psi(b) - sp.psi(a + b)),
        ),
        "betaln": (
            "a b",
            lambda g, a, b: g * (sp.psi(a) - sp.psi(a + b)),
            lambda g, a, b: g * (sp.psi(b) - sp.psi(a + b)),
        ),
        "binom": (
            "n k",
            lambda g, n, k, out: g * out * (sp.psi(n + 1) - sp.psi(n - k + 1)),
            lambda g, n, k, out: g * out * (sp.psi(n - k + 1) - sp.psi(k + 1)),
        ),
        "poch": (
            "a m",
            lambda g, a, m, out: g * out * (sp.psi(a + m) - sp.psi(a)),
            lambda g, a, m, out: g * out * sp.psi(a + m),
        ),
        "gammainc": ("a x", PARAMETER, lambda g, a, x: g * exp(sp.xlogy(a - 1, x) - x - sp.gammaln(a))),
        "gammaincc": ("a x", PARAMETER, lambda g, a, x: -g * exp(sp.xlogy(a - 1, x) - x - sp.gammaln(a))),
        "betainc": (
            "a b x",
            PARAMETER,
            PARAMETER,
            lambda g, a, b, x: g * exp(sp.xlogy(a - 1, x) + sp.xlog1py(b - 1, -x) - sp.betaln(a, b)),
        ),
        "betaincc": (
            "a b x",
            PARAMETER,
            PARAMETER,
            lambda g, a, b, x: -g * exp(sp.xlogy(a - 1, x) + sp.xlog1py(b - 1, -x) - sp.betaln(a, b)),
        ),
        # integrals: the exponential, sine and cosine integrals, Fresnel, Spence, elliptic
        "expi": ("x", lambda g, x: g * exp(x) / x),
        "exp1": ("x", lambda g, x: -g * exp(-x) / x),
        "expn": ("n x", None, lambda g, n, x: -g * sp.expn(n - 1, x)),
        "sici": ("x", lambda g, x: g[0] * np.sinc(x / pi) + zero_for_zero(g[1] * cos(x), x)),
        "shichi": (
            "x",
            lambda g, x: g[0] * (sp.exprel(x) + sp.exprel(-x)) / 2 + zero_for_zero(g[1] * np.cosh(x), x),
        ),
        "fresnel": ("x", lambda g, x: g[0] * sin(pi / 2 * x * x) + g[1] * cos(pi / 2 * x * x)),
        "spence": ("x", lambda g, x: -g * sp.hyp2f1(1, 1, 2, 1 - x)),
        "ellipk": ("m", lambda g, m: g * (pi / 8) * sp.hyp2f1(1.5, 1.5, 2, m)),
        "ellipe": ("m", lambda g, m: -g * (pi / 8) * sp.hyp2f1(0.5, 1.5, 2, m)),
        # hypergeometric
        "hyp0f1": ("v x", ORDER, lambda g, v, x: g / v * sp.hyp0f1(v + 1, x)),
        "hyp1f1": ("a b x", PARAMETER, PARAMETER, lambda g, a, b, x: g * (a / b) * sp.hyp1f1(a + 1, b + 1, x)),
        "hyp2f1": (
            "a b c x",
            PARAMETER,
            PARAMETER,
            PARAMETER,
            lambda g, a, b, c, x: g * (a * b / c) * sp.hyp2f1(a + 1, b + 1, c + 1, x),
        ),
        # Bessel functions
        "j0": ("x", lambda g, x: -g * sp.j1(x)),
        "j1": ("x", lambda g, x: g * (sp.j0(x) - sp.jv(2, x)) / 2),
        "jv": ("v x", ORDER, lambda g, v, x: g * (sp.jv(v - 1, x) - sp.jv(v + 1, x)) / 2),
        "y0": ("x", lambda g, x: -g * sp.y1(x)),
        "y1": ("x", lambda g, x: g * (sp.y0(x) - sp.yv(2, x)) / 2),
        "yn": ("n x", None, lambda g, n, x: g * (sp.yn(n - 1, x) - sp.yn(n + 1, x)) / 2),
        "yv": ("v x", ORDER, lambda g, v, x: g * (sp.yv(v - 1, x) - sp.yv(v + 1, x)) / 2),
        "hankel1": ("v x", ORDER, lambda g, v, x: g * (sp.hankel1(v - 1, x) - sp.hankel1(v + 1, x)) / 2),
        "hankel2": ("v x", ORDER, lambda g, v, x: g * (sp.hankel2(v - 1, x) - sp.hankel2(v + 1, x)) / 2),
        "i0": ("x", lambda g, x: g * sp.i1(x)),
        "i1": ("x", lambda g, x: g * (sp.i0(x) + sp.iv(2, x)) / 2),
        "iv": ("v x", ORDER, lambda g, v, x: g * (sp.iv(v - 1, x) + sp.iv(v + 1, x)) / 2),
        "k0": ("x", lambda g, x: -g * sp.k1(x)),
        "k1": ("x", lambda g, x: -g * (sp.k0(x) + sp.kv(2, x)) / 2),
        "kn": ("n x", None, lambda g, n, x: -g * (sp.kn(n - 1, x) + sp.kn(n + 1, x)) / 2),
        "kv": ("v x", ORDER, lambda g, v, x: -g * (sp.kv(v - 1, x) + sp.kv(v + 1, x)) / 2),
        # scaled by exp(-|x|) or exp(x)
        "i0e": ("x", lambda g, x, out: g * (sp.i1e(x) - np.sign(x) * out)),
        "i1e": ("x", lambda g, x, out: g * ((sp.i0e(x) + sp.ive(2, x)) / 2 - np.sign(x) * out)),
        "k0e": ("x", lambda g, x, out: g * (out - sp.k1e(x))),
        "k1e": ("x", lambda g, x, out: g * (out - (sp.k0e(x) + sp.kve(2, x)) / 2)),
        "kve": ("v x", ORDER, lambda g, v, x, out: g * (out - (sp.kve(v - 1, x) + sp.kve(v + 1, x)) / 2)),
        "ive": (
            "v x",
            ORDER,
            lambda g, v, x, out: g * (sp.ive(v - 1, x) + sp.ive(v + 1, x)) / 2 - np.sign(np.real(x)) * np.real(g * out),
        ),
    }
