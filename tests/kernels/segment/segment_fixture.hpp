// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/expect_within.hpp"
#include "kernels/kernel_fixture.hpp"
#include "segment/segment.hpp"

#include <cmath>
#include <limits>
#include <numeric>
#include <optional>

namespace msstream::ops::kernels::testing {

using Integers = std::vector<std::int64_t>;
using Floats = std::vector<float>;
using Doubles = std::vector<double>;

inline constexpr SegmentReduction kReductions[] = {SegmentReduction::sum,
                                                   SegmentReduction::mean,
                                                   SegmentReduction::sqrtn,
                                                   SegmentReduction::max,
                                                   SegmentReduction::min,
                                                   SegmentReduction::prod};
inline constexpr SegmentForm kForms[] = {
    SegmentForm::offsets, SegmentForm::sorted_ids, SegmentForm::unsorted_ids};

/// A description of segments in host memory, in one of the forms of SegmentForm.
struct Segments {
  SegmentForm form;
  std::int64_t segments;
  std::int64_t capacity;
  Integers indices;
  bool is_narrow = false;  ///< whether ids have 32 bits
  std::optional<std::int64_t> count = {};

  /// Returns the segment of each position, or -1 for a position in no segment.
  [[nodiscard]] Integers owners() const {
    Integers owners(static_cast<std::size_t>(capacity), -1);
    if (form == SegmentForm::offsets) {
      for (std::int64_t s = 0; s < segments; ++s) {
        auto const at = indices.begin() + s;
        std::fill(owners.begin() + at[0], owners.begin() + at[1], s);
      }
      return owners;
    }
    for (std::int64_t i = 0; i < count.value_or(capacity); ++i) {
      auto const id = indices[static_cast<std::size_t>(i)];
      if (id >= 0 && id < segments) {
        owners[static_cast<std::size_t>(i)] = id;
      }
    }
    return owners;
  }
};

/// Returns segments by offsets, of which segment s has lengths[s] positions. `before` positions
/// precede the first segment, and `behind` follow the last.
inline Segments by_offsets(Integers const& lengths,
                           std::int64_t before = 0,
                           std::int64_t behind = 0) {
  Integers offsets{before};
  for (auto const length : lengths) {
    offsets.push_back(offsets.back() + length);
  }
  return {SegmentForm::offsets,
          static_cast<std::int64_t>(lengths.size()),
          offsets.back() + behind,
          offsets};
}
inline Segments by_ids(SegmentForm form,
                       Integers ids,
                       std::int64_t segments,
                       bool is_narrow = false) {
  auto const capacity = static_cast<std::int64_t>(ids.size());
  if (form == SegmentForm::sorted_ids) {
    std::sort(ids.begin(), ids.end());
  }
  return {form, segments, capacity, std::move(ids), is_narrow};
}
/// Returns segments in any form, of which segment s has lengths[s] positions. If the segments have
/// ids, the `before` positions that precede the segments and the `behind` that follow have ids out
/// of range.
inline Segments in_form(SegmentForm form,
                        Integers const& lengths,
                        std::int64_t before,
                        std::int64_t behind,
                        Random& random) {
  if (form == SegmentForm::offsets) {
    return by_offsets(lengths, before, behind);
  }
  auto const segments = static_cast<std::int64_t>(lengths.size());
  Integers ids(static_cast<std::size_t>(before), -1);
  for (std::int64_t s = 0; s < segments; ++s) {
    ids.insert(ids.end(), static_cast<std::size_t>(lengths[static_cast<std::size_t>(s)]), s);
  }
  ids.insert(ids.end(), static_cast<std::size_t>(behind), segments);
  if (form == SegmentForm::unsorted_ids) {
    for (std::size_t i = ids.size(); i > 1; --i) {
      std::swap(ids[i - 1],
                ids[static_cast<std::size_t>(random.integer(0, static_cast<std::int64_t>(i) - 1))]);
    }
  }
  return by_ids(form, std::move(ids), segments, random.integer(0, 1) == 0);
}

/// Returns the results of segment reductions in double, one position after the other. If an element
/// is NaN, the result is NaN; a segment without rows gives `empty`.
inline Doubles reduced_in_double(Segments const& segments,
                                 Floats const& values,
                                 std::int64_t width,
                                 SegmentReduction reduction,
                                 double empty) {
  auto const elements = static_cast<std::size_t>(segments.segments * width);
  Doubles totals(elements, reduction == SegmentReduction::prod ? 1.0 : 0.0);
  Doubles rows(elements, 0.0);
  auto const owners = segments.owners();
  for (std::size_t at = 0; at < values.size(); ++at) {
    auto const columns = static_cast<std::size_t>(width);
    auto const owner = owners[at / columns];
    if (owner < 0) {
      continue;
    }
    auto const to = static_cast<std::size_t>(owner) * columns + at % columns;
    auto& total = totals[to];
    double const x = values[at];
    if (reduction == SegmentReduction::prod) {
      total *= x;
    } else if (reduction == SegmentReduction::max || reduction == SegmentReduction::min) {
      bool const is_better = reduction == SegmentReduction::max ? x > total : x < total;
      if (rows[to] == 0.0 || (!std::isnan(total) && (std::isnan(x) || is_better))) {
        total = x;
      }
    } else {
      total += x;
    }
    rows[to] += 1.0;
  }
  for (std::size_t at = 0; at < elements; ++at) {
    if (rows[at] == 0.0) {
      totals[at] = empty;
    } else if (reduction == SegmentReduction::mean) {
      totals[at] /= rows[at];
    } else if (reduction == SegmentReduction::sqrtn) {
      totals[at] /= std::sqrt(rows[at]);
    }
  }
  return totals;
}

/// A fixture that runs segment kernels on the segments that a test describes.
template <class Stream>
class SegmentKernelTest : public KernelTest<Stream> {
 protected:
  /// The device copy of segments, valid while the object exists.
  struct Uploaded {
    std::shared_ptr<void> indices;
    std::shared_ptr<void> count;
    SegmentLayout layout;
  };

  Uploaded put(Segments const& segments) {
    Uploaded there;
    there.layout = {.form = segments.form,
                    .segments = segments.segments,
                    .capacity = segments.capacity,
                    .indices = nullptr};
    auto const keep = [&](auto const& buffer) {
      using Held = std::decay_t<decltype(buffer)>;
      auto const held = std::make_shared<Held>(buffer);
      there.indices = held;
      there.layout.indices = held->data();
    };
    if (segments.is_narrow && segments.form != SegmentForm::offsets) {
      there.layout.id_type = DType::int32;
      keep(this->upload(
          std::vector<std::int32_t>(segments.indices.begin(), segments.indices.end())));
    } else {
      keep(this->upload(segments.indices));
    }
    if (segments.count) {
      auto const held = std::make_shared<Buffer<std::int64_t>>(this->scalar(*segments.count));
      there.count = held;
      there.layout.count = held->data();
    }
    return there;
  }

  /// Runs a segment reduction. With `unaligned` floats before values and output, no row begins at a
  /// multiple of 16 bytes.
  Floats reduce(Segments const& segments,
                Floats const& values,
                std::int64_t width,
                SegmentReduction reduction,
                float empty_value = 0.0F,
                bool deterministic = true,
                std::int64_t unaligned = 0) {
    auto const there = put(segments);
    Floats shifted(static_cast<std::size_t>(unaligned), 0.0F);
    shifted.insert(shifted.end(), values.begin(), values.end());
    auto const input = this->upload(shifted);
    auto const output = this->guarded(segments.segments * width, unaligned);
    SegmentArgs args{.values = input.data() + unaligned,
                     .width = width,
                     .layout = there.layout,
                     .reduction = reduction,
                     .empty_value = empty_value,
                     .deterministic = deterministic,
                     .output = output.data(),
                     .workspace = nullptr};
    auto const memory = this->workspace(segment_reduce_workspace_bytes(this->stream(), args));
    args.workspace = memory.data();
    this->replay([&](Stream stream) { segment_reduce(stream, args); });
    return this->read_segments(output);
  }

  /// Returns the output of a segment kernel, whose elements may be NaN. The test fails if a kernel
  /// wrote outside of the output.
  Floats read_segments(GuardedOutput const& output) {
    auto const all = this->read(output.memory);
    auto const is_poison = [](float value) { return std::isnan(value); };
    auto const first = all.begin() + output.offset;
    EXPECT_TRUE(std::all_of(all.begin(), first, is_poison)) << "written before the output";
    EXPECT_TRUE(std::all_of(first + output.count, all.end(), is_poison))
        << "written behind the output";
    return {first, first + output.count};
  }

  /// Returns small random integers as floats, whose sums are exact in any order, so that one lost
  /// or repeated row among thousands is detected.
  Floats whole_numbers(std::int64_t count) {
    Floats out(static_cast<std::size_t>(count));
    std::generate(
        out.begin(), out.end(), [&] { return static_cast<float>(this->random.integer(-8, 8)); });
    return out;
  }
  /// Returns random factors (1, -1 and a few powers of two) whose products are exact in any order.
  Floats factors(std::int64_t count) {
    Floats out(static_cast<std::size_t>(count));
    std::generate(out.begin(), out.end(), [&] {
      auto const draw = this->random.integer(0, 1023);
      return draw == 0 ? 2.0F : draw == 1 ? 0.5F : draw % 2 == 0 ? 1.0F : -1.0F;
    });
    return out;
  }
};

}  // namespace msstream::ops::kernels::testing
