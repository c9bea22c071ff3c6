// SPDX-License-Identifier: Apache-2.0
#include "common/real_types.hpp"
#include "common/vector_map.cuh"
#include "elementwise/unary.hpp"
#include "elementwise/unary_math.hpp"

namespace msstream::ops::kernels {

namespace {

template <class Function>
struct GradientOf {
  Function function;
  __device__ float operator()(float saved, float output_gradient) const {
    return function.gradient(saved, output_gradient);
  }
};

}  // namespace

void unary(CudaStream stream, UnaryArgs const& args) {
  with_real_type("unary: the input", args.dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    with_function(args.function, args.parameter, args.limit, [&](auto function) {
      map(stream,
          "unary",
          function,
          static_cast<T*>(args.output),
          args.count,
          static_cast<T const*>(args.input));
    });
  });
}

void unary_gradient(CudaStream stream, UnaryGradientArgs const& args) {
  with_real_type("unary_gradient: the gradient", args.dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    with_function(args.function, args.parameter, args.limit, [&](auto function) {
      map(stream,
          "unary_gradient",
          GradientOf<decltype(function)>{function},
          static_cast<T*>(args.input_gradient),
          args.count,
          static_cast<T const*>(args.saved),
          static_cast<T const*>(args.output_gradient));
    });
  });
}

}  // namespace msstream::ops::kernels
