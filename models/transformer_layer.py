"""A Transformer layer in JAX, and how transformer_layer.hlo was made from it.

    python3 models/transformer_layer.py > models/transformer_layer.hlo

with jax and jaxlib 0.4.38 (any machine; eight emulated CPU devices). Only the batch of x is
annotated; every other sharding is left open, to be explored:

    mesh      data=2 model=4
    x         float32[8, 16, 64]     batch, sequence, model      P('data')
    wq wk wv  float32[64, 8, 8]      model, heads, head size
    wo        float32[8, 8, 64]
    w1, w2    float32[64, 256], float32[256, 64]
"""
import glob
import os
import sys
import tempfile

DUMP = tempfile.mkdtemp()
os.environ["XLA_FLAGS"] = (
    f"--xla_force_host_platform_device_count=8 --xla_dump_to={DUMP} --xla_dump_hlo_as_text"
)
os.environ["JAX_HLO_SOURCE_FILE_CANONICALIZATION_REGEX"] = ".*/"

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
from jax.sharding import NamedSharding, PartitionSpec as P  # noqa: E402


def norm(x, gain):
    return x * jax.lax.rsqrt(jnp.mean(x * x, axis=-1, keepdims=True) + 1e-6) * gain


def layer(x, g1, wq, wk, wv, wo, g2, w1, w2):
    with jax.named_scope("attention"):
        a = norm(x, g1)
        q = jnp.einsum("bsd,dhk->bshk", a, wq)
        k = jnp.einsum("bsd,dhk->bshk", a, wk)
        v = jnp.einsum("bsd,dhk->bshk", a, wv)
        scores = jnp.einsum("bshk,bthk->bhst", q, k) * (q.shape[-1] ** -0.5)
        causal = jnp.tril(jnp.ones((x.shape[1], x.shape[1]), bool))
        weights = jax.nn.softmax(jnp.where(causal, scores, -1e9), axis=-1)
        x = x + jnp.einsum("bhst,bthk,hkd->bsd", weights, v, wo)
    with jax.named_scope("mlp"):
        h = jax.nn.gelu(norm(x, g2) @ w1)
        return x + h @ w2


def main():
    f32 = jnp.float32
    d, heads, size, f = 64, 8, 8, 256
    shapes = [(8, 16, d), (d,), (d, heads, size), (d, heads, size), (d, heads, size),
              (heads, size, d), (d,), (d, f), (f, d)]
    mesh = jax.make_mesh((2, 4), ("data", "model"))
    free = [None] * (len(shapes) - 1)
    arguments = [jax.ShapeDtypeStruct(s, f32) for s in shapes]
    jitted = jax.jit(layer, in_shardings=(NamedSharding(mesh, P("data")), *free))
    jitted.lower(*arguments).compile()
    (dump,) = glob.glob(f"{DUMP}/*jit_layer*before_optimizations.txt")
    with open(dump, encoding="utf-8") as text:
        sys.stdout.write(text.read())


if __name__ == "__main__":
    main()
