#pragma once

// Functions of 16 values at once, for the kernel templates. Include after a simd_*.h.

namespace vitrine::kernels::cpu {
namespace {

using F = Simd::F;

/// e^x; relative error below 2e-7. Below −87 it stays at e^−87.
inline F exponential(F x) {
  x = Simd::max(Simd::min(x, Simd::set1(88.0F)), Simd::set1(-87.0F));
  const F n = Simd::round(Simd::mul(x, Simd::set1(1.44269504F)));
  F r = Simd::fma(n, Simd::set1(-0.693359375F), x);  // ln 2 in two parts
  r = Simd::fma(n, Simd::set1(2.12194440e-4F), r);
  F p = Simd::set1(1.9875691500e-4F);  // Cephes expf
  p = Simd::fma(p, r, Simd::set1(1.3981999507e-3F));
  p = Simd::fma(p, r, Simd::set1(8.3334519073e-3F));
  p = Simd::fma(p, r, Simd::set1(4.1665795894e-2F));
  p = Simd::fma(p, r, Simd::set1(1.6666665459e-1F));
  p = Simd::fma(p, r, Simd::set1(5.0000001201e-1F));
  p = Simd::fma(Simd::mul(r, r), p, Simd::add(r, Simd::set1(1.0F)));
  return Simd::scale2(p, n);
}

/// tanh x = 1 − 2 / (e^2x + 1)
inline F hyperbolicTangent(F x) {
  const F one = Simd::set1(1.0F);
  const F e = exponential(Simd::mul(x, Simd::set1(2.0F)));
  return Simd::sub(one, Simd::div(Simd::set1(2.0F), Simd::add(e, one)));
}

}  // namespace
}  // namespace vitrine::kernels::cpu
