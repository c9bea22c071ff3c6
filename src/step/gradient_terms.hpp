// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ops/elementwise/any_elementwise.hpp"
#include "step/by_memory.hpp"
#include "step/gradient_sum.hpp"

#include <msstream/base/dtype.hpp>
#include <msstream/memory/detail/block_ref.hpp>
#include <msstream/ops/embedding.hpp>
#include <msstream/ops/gather.hpp>
#include <msstream/step/detail/memory_range.hpp>
#include <msstream/tensor/detail/any_copy.hpp>
#include <msstream/tensor/detail/typed.hpp>

#include <cstddef>
#include <cstdint>
#include <source_location>
#include <vector>

namespace msstream::detail {

/// Returns the dense gradient of a table [rows, width]: zeros, except for the rows that have a
/// gradient.
[[nodiscard]] inline Floats dense_of(ops::RowGradients<AnyRuntime> const& gradient,
                                     std::int64_t rows,
                                     std::source_location issued_at) {
  return {OfKnownType(),
          ops::detail::scatter_rows(
              gradient.values.any(), gradient.ids.any(), rows, {gradient.count}, issued_at)};
}

/// The gradients, of one type, that a wanted tensor has from tensors that share elements with it,
/// and their sum. The terms that cover all wanted elements are added first; the terms that cover a
/// part of them follow. Each kind is in the order of add().
class GradientTerms {
 public:
  explicit GradientTerms(MemoryRange const& wanted) : wanted_(wanted) {}

  /// Adds a gradient of the elements in `range`. Some of the elements must be wanted.
  void add(MemoryRange const& range, AnyTensor const& gradient) {
    auto const flat = gradient.reshaped({gradient.count()});
    if (range == wanted_) {
      whole_.push_back(flat);
      return;
    }
    auto const [begin, end] = range.common(wanted_);
    element_bytes_ = bytes_of(gradient.dtype());
    auto const wanted = flat.rows(elements(range.begin, begin), elements(range.begin, end));
    if (begin == wanted_.begin && end == wanted_.end) {
      whole_.push_back(wanted);
    } else {
      parts_.push_back({elements(wanted_.begin, begin), wanted});
    }
  }
  [[nodiscard]] bool empty() const noexcept { return whole_.empty() && parts_.empty(); }
  /// Returns the sum of all terms, [wanted elements]. There must be at least one term.
  /// Asynchronous, deterministic, capture-safe.
  [[nodiscard]] AnyTensor total(std::source_location issued_at) const {
    auto terms = whole_;
    if (!parts_.empty()) {
      terms.push_back(parts_among_zeros(issued_at));
    }
    return terms.size() == 1 ? terms.front() : ops::detail::add(terms, issued_at);
  }

 private:
  struct Part {
    std::int64_t begin;  ///< the index of the first element among the wanted elements
    AnyTensor gradient;

    [[nodiscard]] bool overlaps(Part const& other) const {
      return begin < other.begin + other.gradient.count() && other.begin < begin + gradient.count();
    }
  };

  [[nodiscard]] std::int64_t elements(std::uintptr_t from, std::uintptr_t to) const noexcept {
    return static_cast<std::int64_t>((to - from) / element_bytes_);
  }
  [[nodiscard]] AnyTensor parts_among_zeros(std::source_location issued_at) const {
    auto const& first = parts_.front().gradient;
    AnyTensor const all(first.device(), first.dtype(), {elements(wanted_.begin, wanted_.end)});
    fill_any(all, 0, issued_at);
    for (auto part = parts_.begin(); part != parts_.end(); ++part) {
      auto const target = all.rows(part->begin, part->begin + part->gradient.count());
      bool const is_first = std::none_of(
          parts_.begin(), part, [&](Part const& before) { return before.overlaps(*part); });
      auto const sum = is_first ? part->gradient
                                : ops::detail::add(std::vector{target, part->gradient}, issued_at);
      copy_on_device(target, sum, issued_at);
    }
    return all;
  }

  MemoryRange wanted_;
  std::size_t element_bytes_ = sizeof(float);
  std::vector<AnyTensor> whole_;
  std::vector<Part> parts_;
};

/// A value for a tensor that is identified by its addresses. Also holds the tensor's memory, so
/// that no other tensor can get the same addresses.
template <class Value>
struct Held {
  memory::BlockRef memory;
  Value value;
};
using HeldSums = ByMemory<Held<GradientSum>>;

/// Returns the sum of all gradients in `sums` for the elements in `wanted`. There must be at least
/// one gradient.
[[nodiscard]] inline AnyTensor total_of(std::vector<HeldSums::Entry> const& sums,
                                        MemoryRange const& wanted,
                                        std::source_location issued_at) {
  if (sums.size() == 1 && sums.front().range == wanted) {
    return sums.front().value.value.sum();
  }
  GradientTerms terms(wanted);
  for (auto const& entry : sums) {
    terms.add(entry.range, entry.value.value.sum());
  }
  return terms.total(issued_at);
}

}  // namespace msstream::detail
