// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/host_device.hpp"
#include "common/long_sum.hpp"
#include "elementwise/reduce.hpp"

#include <cmath>

/// The reductions that the CPU and the CUDA implementation share: each has an initial value and
/// combines two values.
namespace msstream::ops::kernels {

struct Total {
  MSSTREAM_HOST_DEVICE static constexpr float nothing() { return 0.0F; }
  MSSTREAM_HOST_DEVICE static float combine(float a, float b) { return a + b; }
  MSSTREAM_HOST_DEVICE static double combine(double a, double b) { return a + b; }
};
/// The maximum as a reduction. A NaN on either side is kept, because no comparison with NaN holds;
/// GPUs from compute capability 8.0 on have an instruction for that.
struct Largest {
  MSSTREAM_HOST_DEVICE static constexpr float nothing() { return -HUGE_VALF; }
  MSSTREAM_HOST_DEVICE static float combine(float a, float b) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    float largest;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(largest) : "f"(a), "f"(b));
    return largest;
#else
    return a > b || a != a ? a : b;
#endif
  }
};
/// The minimum as a reduction, like Largest.
struct Smallest {
  MSSTREAM_HOST_DEVICE static constexpr float nothing() { return HUGE_VALF; }
  MSSTREAM_HOST_DEVICE static float combine(float a, float b) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    float smallest;
    asm("min.NaN.f32 %0, %1, %2;" : "=f"(smallest) : "f"(a), "f"(b));
    return smallest;
#else
    return a < b || a != a ? a : b;
#endif
  }
};

/// A running reduction of many elements. The caller must call fold() after at most kTermsOfPart
/// elements.
template <class Reducer>
class Running {
 public:
  MSSTREAM_HOST_DEVICE void add(float element) { value_ = Reducer::combine(value_, element); }
  MSSTREAM_HOST_DEVICE void fold() {}
  [[nodiscard]] MSSTREAM_HOST_DEVICE float get() const { return value_; }

 private:
  float value_ = Reducer::nothing();
};
template <>
class Running<Total> : public LongSum {};

/// Returns whether an element equals the extremum, where NaN equals NaN, and therefore shares in
/// the extremum's gradient.
MSSTREAM_HOST_DEVICE inline bool is_extremum(float element, float extremum) {
  return element == extremum || (element != element && extremum != extremum);
}

/// Calls `visit` with an object of the class that implements the reduction: Total, Largest or
/// Smallest.
template <class Visit>
void with_reduction(Reduction reduction, Visit const& visit) {
  switch (reduction) {
    case Reduction::sum:
      return visit(Total{});
    case Reduction::max:
      return visit(Largest{});
    case Reduction::min:
      return visit(Smallest{});
  }
}

}  // namespace msstream::ops::kernels
