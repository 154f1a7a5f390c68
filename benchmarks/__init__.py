"""How fast, how large, and compared with what: minigrad and its peers, side by side in one run.

python -m benchmarks                      everything
python -m benchmarks step --sizes XS S    one part of it
"""
