// SPDX-License-Identifier: Apache-2.0
#include "common/long_sum_host.hpp"
#include "elementwise/reduce.hpp"
#include "elementwise/reduce_math.hpp"

#include <algorithm>

namespace msstream::ops::kernels {

namespace {

/// Reduces the elements of a row into 16 lanes first, so that the loop vectorises, and then
/// combines the lanes, first lane first.
template <class Reducer>
float reduce_row(Reducer, float const* row, std::int64_t count) {
  constexpr std::int64_t kLanes = 16;
  float lanes[kLanes];
  std::fill_n(lanes, kLanes, Reducer::nothing());
  std::int64_t first = 0;
  for (; first + kLanes <= count; first += kLanes) {
    for (std::int64_t lane = 0; lane < kLanes; ++lane) {
      lanes[lane] = Reducer::combine(lanes[lane], row[first + lane]);
    }
  }
  for (std::int64_t i = first; i < count; ++i) {
    lanes[i - first] = Reducer::combine(lanes[i - first], row[i]);
  }
  float total = lanes[0];
  for (std::int64_t lane = 1; lane < kLanes; ++lane) {
    total = Reducer::combine(total, lanes[lane]);
  }
  return total;
}

float reduce_row(Total, float const* row, std::int64_t count) {
  return sum_of_terms(count, [=](std::int64_t i) { return row[i]; });
}

/// Reduces all columns together, one row of `view.inner` elements after the other, so that the
/// input is read once from front to back.
template <class Reducer>
void reduce_columns(Reducer, AxisView const& view, float const* input, float* totals) {
  std::fill_n(totals, view.inner, Reducer::nothing());
  for (std::int64_t a = 0; a < view.axis; ++a) {
    float const* const row = input + a * view.inner;
    for (std::int64_t i = 0; i < view.inner; ++i) {
      totals[i] = Reducer::combine(totals[i], row[i]);
    }
  }
}

void reduce_columns(Total, AxisView const& view, float const* input, float* totals) {
  sum_rows(totals, view.inner, view.axis, [=, inner = view.inner](std::int64_t a) {
    float const* const row = input + a * inner;
    for (std::int64_t i = 0; i < inner; ++i) {
      totals[i] += row[i];
    }
  });
}

}  // namespace

std::size_t reduce_axis_workspace_bytes(HostStream, AxisView const&) {
  return 0;
}

void reduce_axis(HostStream stream, ReduceAxisArgs const& args) {
  stream.run([args] {
    with_reduction(args.reduction, [&](auto reducer) {
      auto const& view = args.view;
      for (std::int64_t o = 0; o < view.outer; ++o) {
        float const* const input = args.input + o * view.axis * view.inner;
        float* const output = args.output + o * view.inner;
        if (view.inner == 1) {
          *output = reduce_row(reducer, input, view.axis);
        } else {
          reduce_columns(reducer, view, input, output);
        }
      }
      for (std::int64_t place = 0; place < view.outputs(); ++place) {
        args.output[place] *= args.factor;
      }
    });
  });
}

void repeat_axis(HostStream stream, RepeatAxisArgs const& args) {
  stream.run([args] {
    auto const& view = args.view;
    float* to = args.output;
    for (std::int64_t o = 0; o < view.outer; ++o) {
      float const* const values = args.values + o * view.inner;
      for (std::int64_t a = 0; a < view.axis; ++a) {
        for (std::int64_t i = 0; i < view.inner; ++i) {
          *to++ = args.factor * values[i];
        }
      }
    }
  });
}

std::size_t extremum_gradient_workspace_bytes(HostStream, AxisView const&) {
  return 0;
}

void extremum_gradient(HostStream stream, ExtremumGradientArgs const& args) {
  stream.run([args] {
    auto const& view = args.view;
    for (std::int64_t o = 0; o < view.outer; ++o) {
      for (std::int64_t i = 0; i < view.inner; ++i) {
        std::int64_t const first = o * view.axis * view.inner + i;
        std::int64_t const result = o * view.inner + i;
        float const extremum = args.output[result];
        std::int64_t sharers = 0;
        for (std::int64_t a = 0; a < view.axis; ++a) {
          sharers += is_extremum(args.input[first + a * view.inner], extremum) ? 1 : 0;
        }
        float const share = args.output_gradient[result] / static_cast<float>(sharers);
        for (std::int64_t a = 0; a < view.axis; ++a) {
          std::int64_t const place = first + a * view.inner;
          args.input_gradient[place] = is_extremum(args.input[place], extremum) ? share : 0.0F;
        }
      }
    }
  });
}

}  // namespace msstream::ops::kernels
