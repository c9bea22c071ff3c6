// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/existing_places.hpp"
#include "embedding/embedding_tables.hpp"
#include "embedding/split_slot.hpp"
#include "ids/bag_offsets.hpp"

#include <msstream/runtime/stream_ref.hpp>

#include <cstdint>

/// Bags that are pooled and sent ahead of an update that moves none of their rows, and those that
/// are late.
namespace msstream::ops::kernels {

/// The bags of all ranks in blocks of tables, which are slots: bag b of rank q in slot s is bag (s
/// * ranks + q) * most_bags + b.
struct BagsOfBlocks {
  TableDescriptor const* blocks;   ///< [slots], in device memory
  std::int64_t const* first_rows;  ///< [slots], in device memory: the rows of the blocks before
  std::int64_t slots;
  std::int64_t ranks;
  std::int64_t most_bags;
  std::int64_t const* ids;      ///< [capacity]: rows of the blocks, among other numbers
  std::int64_t const* offsets;  ///< [slots * ranks * most_bags + 1]
  std::int64_t capacity;

  [[nodiscard]] constexpr std::int64_t bags() const { return slots * ranks * most_bags; }
  [[nodiscard]] constexpr std::int64_t slot_of(std::int64_t bag) const {
    return bag / most_bags / ranks;
  }
  [[nodiscard]] constexpr PlaceRange places_of(std::int64_t bag) const {
    return places_between(bag, bag + 1);
  }
  /// Returns the places of all ids in a slot.
  [[nodiscard]] constexpr PlaceRange places_in(std::int64_t slot) const {
    return places_between(slot * ranks * most_bags, (slot + 1) * ranks * most_bags);
  }
  /// Returns the places of the ids of bags; none if the offsets are not such as a rank writes.
  [[nodiscard]] constexpr PlaceRange places_between(std::int64_t bag, std::int64_t end_bag) const {
    auto const begin = offsets[bag];
    auto const end = offsets[end_bag];
    return begin >= 0 && begin <= end && end <= capacity ? PlaceRange{begin, end}
                                                         : PlaceRange{0, 0};
  }
  /// Returns the number of a row among those of all blocks, or -1 for an id that is none.
  [[nodiscard]] constexpr std::int64_t row_of(std::int64_t slot, std::int64_t id) const {
    return is_in_range(id, blocks[slot].rows) ? first_rows[slot] + id : -1;
  }
  /// Returns the number of a bag by rank, slot and bag, as messages have them.
  [[nodiscard]] constexpr std::int64_t number_in_messages(std::int64_t bag) const {
    auto const rank = bag / most_bags % ranks;
    return (rank * slots + slot_of(bag)) * most_bags + bag % most_bags;
  }
};

inline constexpr std::int64_t kRowsOfMark = 32;

struct MarkedRowsArgs {
  BagsOfBlocks bags;
  std::uint32_t* marks;  ///< one bit for each row of all blocks, kRowsOfMark in a number
};
/// Sets the bits of the rows that the bags name, and leaves the others.
void marked_rows(HostStream stream, MarkedRowsArgs const& args);
void marked_rows(CudaStream stream, MarkedRowsArgs const& args);

struct SplitBagsArgs {
  BagsOfBlocks bags;
  std::uint32_t const* marks;  ///< of marked_rows()
  std::int64_t* early_ids;     ///< at the places of the ids; -1 in late bags
  std::int64_t* late_ids;      ///< -1 in early bags
  std::int64_t* lengths;  ///< by rank, slot and bag: the columns of an early bag, 0 for a late one

  [[nodiscard]] constexpr bool is_marked(std::int64_t slot, std::int64_t place) const {
    auto const row = bags.row_of(slot, bags.ids[place]);
    return row >= 0 && (marks[row / kRowsOfMark] >> (row % kRowsOfMark) & 1U) != 0;
  }
  constexpr void write_id(std::int64_t place, bool is_late) const {
    early_ids[place] = is_late ? -1 : bags.ids[place];
    late_ids[place] = is_late ? bags.ids[place] : -1;
  }
  constexpr void write_length(std::int64_t bag, bool is_late) const {
    lengths[bags.number_in_messages(bag)] = is_late ? 0 : bags.blocks[bags.slot_of(bag)].width;
  }
};
/// Splits the bags into late ones, which name a row with a mark, and early ones.
void split_bags(HostStream stream, SplitBagsArgs const& args);
void split_bags(CudaStream stream, SplitBagsArgs const& args);

/// The pooled rows of all ranks' bags, of which the early or the late ones are sent.
struct PackedBagsArgs {
  TableDescriptor const* blocks;  ///< [slots], in device memory
  std::int64_t slots;
  std::int64_t ranks;
  std::int64_t most_bags;
  std::int64_t width;           ///< of all blocks together
  float const* pooled;          ///< [ranks * most_bags, width]
  std::int64_t const* offsets;  ///< the sums of the lengths of split_bags()
  bool is_late;
  std::int64_t most_elements;  ///< of the rows of all bags in a slot; for the size of a launch
  float* messages;             ///< message q begins at q * stride, as SplitSlot has it
  std::int64_t stride;
  std::int64_t* counts;  ///< [ranks]: of the elements of each message

  [[nodiscard]] constexpr SplitSlot slot(std::int64_t number) const {
    return {static_cast<std::int32_t>(number),
            static_cast<std::int32_t>(slots),
            static_cast<std::int32_t>(blocks[number].first_column),
            blocks[number].width};
  }
  /// Returns the elements of early rows in a message before a bag, by slot and bag.
  [[nodiscard]] constexpr std::int64_t early_before(std::int64_t rank, std::int64_t number) const {
    auto const* const of_rank = offsets + rank * slots * most_bags;
    return of_rank[number] - of_rank[0];
  }
  constexpr void write_count(std::int64_t rank) const {
    auto const bags = slots * most_bags;
    auto const early = early_before(rank, bags);
    counts[rank] = is_late ? most_bags * width - early : bags + 1 + early;
    if (!is_late) {
      messages[rank * stride + bags] = float_of_offset(early);
    }
  }
  /// Writes column `column` of a slot's row, and before the first one its offset.
  constexpr void write_element(std::int64_t rank,
                               std::int64_t number,
                               std::int64_t bag,
                               std::int64_t column) const {
    auto const in = slot(number);
    auto const place = in.number_of(most_bags, bag);
    auto const early = early_before(rank, place);
    bool const is_early = early_before(rank, place + 1) > early;
    auto* const message = messages + rank * stride;
    if (!is_late && column == 0) {
      message[place] = float_of_offset(early);
    }
    if (is_early == is_late) {
      return;
    }
    auto const begin =
        is_late ? in.late_place(most_bags, bag, early) : in.offsets(most_bags) + early;
    message[begin + column] = pooled[(rank * most_bags + bag) * width + in.first_column + column];
  }
};
/// Writes the early messages, or the late ones.
void packed_bags(HostStream stream, PackedBagsArgs const& args);
void packed_bags(CudaStream stream, PackedBagsArgs const& args);

/// The positions of maxima in early bags, and in late ones: -1 in the bags that are the others'.
struct JoinedArgmaxArgs {
  std::int32_t const* early;  ///< [count]
  std::int32_t* late;         ///< [count]
  std::int64_t count;
};
/// Writes the positions of the early bags to those of the late ones.
void joined_argmax(HostStream stream, JoinedArgmaxArgs const& args);
void joined_argmax(CudaStream stream, JoinedArgmaxArgs const& args);

}  // namespace msstream::ops::kernels
