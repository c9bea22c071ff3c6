// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/existing_places.hpp"
#include "embedding/embedding_tables.hpp"
#include "embedding/split_slot.hpp"
#include "ids/bag_offsets.hpp"

#include <msstream/runtime/stream_ref.hpp>

#include <cstdint>

/// Early bags, which are pooled and sent ahead of an update that moves none of their rows, and late
/// bags. Of a bag without a row nothing is sent.
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

/// Numbers of elements in early and in late messages, which are added up together.
struct SplitCounts {
  std::int64_t early;  ///< less than 2^31, like the other one
  std::int64_t late;

  [[nodiscard]] constexpr std::int64_t together() const { return late << 32 | early; }
  [[nodiscard]] static constexpr SplitCounts of(std::int64_t together) {
    return {together & 0xFFFFFFFF, together >> 32};
  }
};

struct SplitBagsArgs {
  BagsOfBlocks bags;
  std::uint32_t const* marks;  ///< of marked_rows()
  std::int64_t* early_ids;     ///< at the places of the ids; -1 in late bags
  std::int64_t* late_ids;      ///< -1 in early bags
  std::int64_t* counts;        ///< by rank, slot and bag: SplitCounts of the elements of its row

  /// The properties of a bag by the ids that have been looked at.
  struct Bag {
    bool has_row = false;
    bool is_late = false;
  };
  constexpr void look_at(std::int64_t slot, std::int64_t place, Bag& bag) const {
    if (auto const row = bags.row_of(slot, bags.ids[place]); row >= 0) {
      bag.has_row = true;
      bag.is_late = bag.is_late || (marks[row / kRowsOfMark] >> (row % kRowsOfMark) & 1U) != 0;
    }
  }
  constexpr void write_id(std::int64_t place, Bag const& bag) const {
    early_ids[place] = bag.is_late ? -1 : bags.ids[place];
    late_ids[place] = bag.is_late ? bags.ids[place] : -1;
  }
  constexpr void write_counts(std::int64_t number, Bag const& bag) const {
    std::int64_t const columns = bag.has_row ? bags.blocks[bags.slot_of(number)].width : 0;
    counts[bags.number_in_messages(number)] =
        SplitCounts{bag.is_late ? 0 : columns, bag.is_late ? columns : 0}.together();
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
  std::int64_t width;          ///< of all blocks together
  float const* pooled;         ///< [ranks * most_bags, width]
  std::int64_t const* before;  ///< the sums of the counts of split_bags()
  bool is_late;
  std::int64_t most_elements;  ///< of the rows of all bags in a slot; for the size of a launch
  float* messages;             ///< message q begins at q * stride
  std::int64_t stride;
  std::int64_t* counts;  ///< [ranks]: of the elements of each message

  /// Returns the elements of a rank's bags before a bag, by slot and bag.
  [[nodiscard]] constexpr SplitCounts counts_before(std::int64_t rank, std::int64_t number) const {
    auto const* const of_rank = before + rank * slots * most_bags;
    return SplitCounts::of(of_rank[number] - of_rank[0]);
  }
  [[nodiscard]] constexpr RowPlace place_of(std::int64_t rank, std::int64_t number) const {
    auto const begin = counts_before(rank, number);
    auto const end = counts_before(rank, number + 1);
    return end.early > begin.early ? RowPlace(false, begin.early)
           : end.late > begin.late ? RowPlace(true, begin.late)
                                   : RowPlace();
  }
  constexpr void write_count(std::int64_t rank) const {
    auto const all = counts_before(rank, slots * most_bags);
    counts[rank] = is_late ? all.late : slots * most_bags + all.early;
  }
  /// A row of `pooled`, and its copy in a message; null if it is not sent.
  struct Row {
    float const* from;
    float* to;
  };
  /// Writes the place of a bag's row if the messages are early ones.
  constexpr void write_place(std::int64_t rank, std::int64_t number, RowPlace const& place) const {
    if (!is_late) {
      messages[rank * stride + number] = place.as_float();
    }
  }
  [[nodiscard]] constexpr Row row_of(std::int64_t rank,
                                     std::int64_t slot,
                                     std::int64_t bag,
                                     RowPlace const& place) const {
    auto* const rows = messages + rank * stride + (is_late ? 0 : slots * most_bags);
    bool const is_sent = place.has_row() && place.is_late() == is_late;
    return {pooled + (rank * most_bags + bag) * width + blocks[slot].first_column,
            is_sent ? rows + place.element() : nullptr};
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
