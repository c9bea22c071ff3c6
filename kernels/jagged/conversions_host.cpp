// SPDX-License-Identifier: Apache-2.0
#include "ids/bag_offsets.hpp"
#include "ids/bag_report_host.hpp"
#include "jagged/jagged.hpp"

#include <algorithm>
#include <cstring>

namespace msstream::ops::kernels {
namespace {

/// The rows of a sample that are both in the jagged form and, limited to max_length, in the dense
/// form.
struct Sample {
  std::int64_t begin;
  std::int64_t kept;

  Sample(JaggedLayout const& layout, BagOffsets<std::int64_t> const& offsets, std::int64_t sample) {
    bool const is_bad = offsets.is_bad(sample);
    if (is_bad) {
      count_out_of_range(layout.report, 1);
      spring_trap(layout.report, offsets, sample);
    }
    auto const rows = is_bad ? PlaceRange{0, 0} : offsets.places_of(sample);
    begin = rows.begin;
    kept = std::min(rows.end - rows.begin, layout.max_length);
  }
};

[[nodiscard]] BagOffsets<std::int64_t> offsets_of(JaggedLayout const& layout) {
  return BagOffsets<std::int64_t>{layout.offsets, layout.batch, layout.capacity}.looked_at();
}

/// Calls write(sample, first row, number of rows) for the samples that have rows, in the order of
/// the rows, and clear(first row, number of rows) for the rows before, between and after them.
template <class Write, class Clear>
void for_each_sample(JaggedLayout const& layout, Write const& write, Clear const& clear) {
  auto const offsets = offsets_of(layout);
  std::int64_t written = 0;
  auto const clear_to = [&](std::int64_t end) {
    if (end > written) {
      clear(written, end - written);
    }
  };
  for (std::int64_t b = 0; b < layout.batch; ++b) {
    Sample const sample(layout, offsets, b);
    if (sample.kept == 0) {
      continue;
    }
    clear_to(sample.begin);
    write(b, sample.begin, sample.kept);
    written = sample.begin + sample.kept;
  }
  clear_to(layout.capacity);
}

void copy_rows(std::byte* to, std::byte const* from, std::int64_t bytes) {
  if (bytes > 0) {
    std::memcpy(to, from, static_cast<std::size_t>(bytes));
  }
}

void clear_rows(std::byte* rows, std::int64_t bytes) {
  if (bytes > 0) {
    std::memset(rows, 0, static_cast<std::size_t>(bytes));
  }
}

template <class Word>
void fill_rows(std::byte* rows, std::int64_t bytes, std::uint64_t bits) {
  auto* const words = reinterpret_cast<Word*>(rows);
  std::fill_n(words, bytes / static_cast<std::int64_t>(sizeof(Word)), static_cast<Word>(bits));
}

void pad_rows(std::byte* rows, std::int64_t bytes, JaggedToDenseArgs const& args) {
  switch (args.element_bytes) {
    case 1:
      return fill_rows<std::uint8_t>(rows, bytes, args.padding_bits);
    case 2:
      return fill_rows<std::uint16_t>(rows, bytes, args.padding_bits);
    case 4:
      return fill_rows<std::uint32_t>(rows, bytes, args.padding_bits);
    default:
      return fill_rows<std::uint64_t>(rows, bytes, args.padding_bits);
  }
}

}  // namespace

void jagged_to_dense(HostStream stream, JaggedToDenseArgs const& args) {
  stream.run([args] {
    auto const& layout = args.layout;
    auto const offsets = offsets_of(layout);
    auto const row_bytes = layout.row_bytes;
    auto const* const values = static_cast<std::byte const*>(args.values);
    auto* const dense = static_cast<std::byte*>(args.dense);
    for (std::int64_t b = 0; b < layout.batch; ++b) {
      Sample const sample(layout, offsets, b);
      auto* const rows = dense + b * layout.max_length * row_bytes;
      copy_rows(rows, values + sample.begin * row_bytes, sample.kept * row_bytes);
      pad_rows(rows + sample.kept * row_bytes, (layout.max_length - sample.kept) * row_bytes, args);
    }
  });
}

void dense_to_jagged(HostStream stream, DenseToJaggedArgs const& args) {
  stream.run([args] {
    auto const& layout = args.layout;
    auto const row_bytes = layout.row_bytes;
    auto const* const dense = static_cast<std::byte const*>(args.dense);
    auto* const values = static_cast<std::byte*>(args.values);
    for_each_sample(
        layout,
        [&](std::int64_t sample, std::int64_t first, std::int64_t count) {
          copy_rows(values + first * row_bytes,
                    dense + sample * layout.max_length * row_bytes,
                    count * row_bytes);
        },
        [&](std::int64_t first, std::int64_t count) {
          clear_rows(values + first * row_bytes, count * row_bytes);
        });
  });
}

void repeat_rows(HostStream stream, RepeatRowsArgs const& args) {
  stream.run([args] {
    auto const row_bytes = args.layout.row_bytes;
    auto const* const rows = static_cast<std::byte const*>(args.rows);
    auto* const output = static_cast<std::byte*>(args.output);
    for_each_sample(
        args.layout,
        [&](std::int64_t sample, std::int64_t first, std::int64_t count) {
          for (auto row = first; row < first + count; ++row) {
            copy_rows(output + row * row_bytes, rows + sample * row_bytes, row_bytes);
          }
        },
        [&](std::int64_t first, std::int64_t count) {
          clear_rows(output + first * row_bytes, count * row_bytes);
        });
  });
}

void segment_ids(HostStream stream, SegmentIdsArgs const& args) {
  stream.run([args] {
    auto const write = [&](std::int64_t sample, std::int64_t first, std::int64_t count) {
      std::fill_n(args.ids + first, count, sample);
    };
    for_each_sample(args.layout, write, [&](std::int64_t first, std::int64_t count) {
      write(-1, first, count);
    });
  });
}

}  // namespace msstream::ops::kernels
