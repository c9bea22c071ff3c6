// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "drawn.hpp"
#include "suite.hpp"

#include <msstream/memory/device.hpp>

#include <fmt/core.h>

#include <algorithm>
#include <any>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <unordered_map>

namespace benchmarks {

/// A device, and inputs that several benchmarks of a suite share, made when first used.
template <ms::Runtime R>
class Lab {
 public:
  explicit Lab(std::int64_t divisor) : divisor_(divisor) {}

  DeviceBench<R>& bench() {
    if (!bench_) {
      bench_.emplace(divisor_);
    }
    return *bench_;
  }
  [[nodiscard]] ms::Device<R> const& device() { return bench().device(); }
  [[nodiscard]] std::int64_t rows(std::int64_t full) { return bench().rows(full); }

  /// Returns the result of the first call of `make` with this name, which is kept for later calls.
  template <class Make>
  std::invoke_result_t<Make const&> kept(std::string const& name, Make const& make) {
    auto& slot = kept_[name];
    if (!slot.has_value()) {
      slot = make();
    }
    return std::any_cast<std::invoke_result_t<Make const&>>(slot);
  }
  /// Returns a matrix of random elements. Only the latest such matrix is kept, because several may
  /// not fit.
  template <class T = float>
  ms::Tensor<T, R> matrix(std::int64_t rows, std::int64_t width) {
    using Matrix = ms::Tensor<T, R>;
    auto const* const latest = std::any_cast<Matrix>(&matrix_);
    if (latest == nullptr || latest->shape() != ms::Shape{rows, width}) {
      drop_matrix();
      matrix_ = random_rows<T>(device(), rows, width);
    }
    return std::any_cast<Matrix>(matrix_);
  }
  void drop_matrix() { matrix_.reset(); }

 private:
  std::int64_t divisor_;
  std::optional<DeviceBench<R>> bench_;
  std::any matrix_;
  std::unordered_map<std::string, std::any> kept_;
};

/// Returns a function that adds benchmarks named `suite/runtime/what`, which share one Lab (a
/// device and its inputs). It takes `what` and a function of the benchmark's state and the lab.
template <ms::Runtime R>
auto adder(std::string const& suite, std::int64_t divisor) {
  return [suite, lab = std::make_shared<Lab<R>>(divisor)](std::string const& what, auto function) {
    add(fmt::format("{}/{}/{}", suite, R::name, what), 1, [=](benchmark::State& state) {
      function(state, *lab);
    });
  };
}

/// Returns a function that adds a benchmark `what/name of the draw` for each draw, by `add_one` (a
/// result of adder()), and passes the draw to the benchmark's function.
template <class Add, class Name>
auto by_draw(Add add_one, Name name) {
  return [=](std::string const& what, auto function) {
    for (auto const draw : kDraws) {
      add_one(fmt::format("{}/{}", what, name(draw)),
              [=](auto& state, auto& lab) { function(state, lab, draw); });
    }
  };
}

/// Returns the name of the distribution of segment lengths: about even, or a power law.
[[nodiscard]] inline std::string_view lengths_of(Draw draw) {
  return draw == Draw::uniform ? "even" : "power_law";
}

template <ms::Runtime R>
std::int64_t segment_rows(Lab<R>& lab) {
  return lab.rows(axes::Kernels::kSegmentRows);
}
template <ms::Runtime R>
std::int64_t segments(Lab<R>& lab) {
  return lab.rows(axes::Kernels::kSegments);
}

/// Returns the segment number of each row, in random order.
template <ms::Runtime R>
ms::Tensor<std::int64_t, R> segment_ids(Lab<R>& lab, Draw draw) {
  return lab.kept(fmt::format("segment ids, {}", name_of(draw)), [&] {
    return put_ids<std::int64_t>(
        lab.device(), drawn(segment_rows(lab), segments(lab), draw), {segment_rows(lab)});
  });
}

/// Returns the segment number of each row, in ascending order.
template <ms::Runtime R>
ms::Tensor<std::int64_t, R> sorted_segment_ids(Lab<R>& lab, Draw draw) {
  return lab.kept(fmt::format("sorted segment ids, {}", name_of(draw)), [&] {
    auto ids = drawn(segment_rows(lab), segments(lab), draw);
    std::sort(ids.begin(), ids.end());
    return put_ids<std::int64_t>(lab.device(), ids, {segment_rows(lab)});
  });
}

/// Returns the start of each segment, and the end of the last: [segments + 1].
template <ms::Runtime R>
ms::Tensor<std::int64_t, R> segment_starts(Lab<R>& lab, Draw draw) {
  return lab.kept(fmt::format("segment starts, {}", name_of(draw)), [&] {
    return ms::ops::segment_offsets(sorted_segment_ids(lab, draw), segments(lab));
  });
}

}  // namespace benchmarks
