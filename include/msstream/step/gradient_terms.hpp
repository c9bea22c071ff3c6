// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/ops/elementwise.hpp>
#include <msstream/ops/embedding_gradient.hpp>
#include <msstream/ops/gather.hpp>
#include <msstream/step/by_memory.hpp>
#include <msstream/tensor/copy.hpp>

#include <cstddef>
#include <cstdint>
#include <source_location>
#include <vector>

namespace msstream::detail {

/// Returns the dense gradient of a table [rows, width]: the rows that have a gradient, among zeros.
template <Runtime R>
[[nodiscard]] Tensor<float, R> dense_of(ops::RowGradients<R> const& gradient,
                                        std::int64_t rows,
                                        std::source_location issued_at) {
  return ops::scatter_rows(gradient.values, gradient.ids, rows, {gradient.count}, issued_at);
}

/// Gradients of tensors that share elements with a wanted tensor, and their sum for its elements.
/// Gradients that cover all wanted elements come first, then those of parts among zeros, each in
/// the order of add().
template <Runtime R>
class GradientTerms {
 public:
  using Gradient = Tensor<float, R>;

  explicit GradientTerms(MemoryRange const& wanted) : wanted_(wanted) {}

  /// Adds the gradient of the elements in `range`, of which some are wanted.
  void add(MemoryRange const& range, Gradient const& gradient) {
    auto const flat = gradient.reshaped({gradient.count()});
    if (range == wanted_) {
      whole_.push_back(flat);
      return;
    }
    auto const [begin, end] = range.common(wanted_);
    auto const wanted = flat.rows(elements(range.begin, begin), elements(range.begin, end));
    if (begin == wanted_.begin && end == wanted_.end) {
      whole_.push_back(wanted);
    } else {
      parts_.push_back({elements(wanted_.begin, begin), wanted});
    }
  }
  [[nodiscard]] bool empty() const noexcept { return whole_.empty() && parts_.empty(); }
  /// Returns the sum, [elements]. There must be at least one term. Asynchronous, deterministic,
  /// capture-safe.
  [[nodiscard]] Gradient total(std::source_location issued_at) const {
    auto terms = whole_;
    if (!parts_.empty()) {
      terms.push_back(parts_among_zeros(issued_at));
    }
    return terms.size() == 1 ? terms.front() : ops::add<R>(terms, issued_at);
  }

 private:
  struct Part {
    std::int64_t begin;  ///< index among the wanted elements
    Gradient gradient;

    [[nodiscard]] bool overlaps(Part const& other) const {
      return begin < other.begin + other.gradient.count() && other.begin < begin + gradient.count();
    }
  };

  [[nodiscard]] static std::int64_t elements(std::uintptr_t from, std::uintptr_t to) noexcept {
    return static_cast<std::int64_t>((to - from) / sizeof(float));
  }
  [[nodiscard]] Gradient parts_among_zeros(std::source_location issued_at) const {
    auto all = zeros<float>(Device<R>(parts_.front().gradient.device()),
                            {elements(wanted_.begin, wanted_.end)},
                            issued_at);
    for (auto part = parts_.begin(); part != parts_.end(); ++part) {
      auto const target = all.rows(part->begin, part->begin + part->gradient.count());
      bool const is_first = std::none_of(
          parts_.begin(), part, [&](Part const& before) { return before.overlaps(*part); });
      copy(target,
           is_first ? part->gradient : ops::add<R>(std::vector{target, part->gradient}, issued_at),
           issued_at);
    }
    return all;
  }

  MemoryRange wanted_;
  std::vector<Gradient> whole_;
  std::vector<Part> parts_;
};

/// Adds the gradients in `sums`, one or more entries of a ByMemory whose values hold a GradientSum,
/// and returns the total for the elements in `wanted`.
template <Runtime R, class Sums>
[[nodiscard]] Tensor<float, R> total_of(Sums const& sums,
                                        MemoryRange const& wanted,
                                        std::source_location issued_at) {
  if (sums.size() == 1 && sums.front().range == wanted) {
    return sums.front().value.value.sum();
  }
  GradientTerms<R> terms(wanted);
  for (auto const& entry : sums) {
    terms.add(entry.range, entry.value.value.sum());
  }
  return terms.total(issued_at);
}

}  // namespace msstream::detail
