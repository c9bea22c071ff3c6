// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/host_device.hpp"
#include "common/id_report.hpp"
#include "embedding/embedding_tables.hpp"
#include "embedding/shard_bags.hpp"

#include <msstream/runtime/stream_ref.hpp>

#include <cstdint>

/// The messages in which ranks send each other distinct rows of tables, and the sums of their
/// gradients. A block of a table in a message is a slot. A message of ids consists of int64
/// numbers: slots + 1 offsets into the ids, slots + 1 offsets into the elements of the rows, and
/// the ids, which are rows of the blocks and ascend in each slot. A message of rows has the
/// elements of the rows, one after the other.
namespace msstream::ops::kernels {

/// The number of the first of ascending values that is not below a border, for each border.
struct LowerBoundsArgs {
  std::int64_t const* values;
  std::int64_t const* count;    ///< device scalar: the number of values
  std::int64_t const* borders;  ///< [border_count], in device memory
  std::int64_t border_count;
  std::int64_t* found;  ///< [border_count]
};
void lower_bounds(HostStream stream, LowerBoundsArgs const& args);
void lower_bounds(CudaStream stream, LowerBoundsArgs const& args);

/// A block of a table in one message.
struct DistinctSlot {
  std::int64_t first_row;      ///< among the rows of all tables
  std::int64_t first_element;  ///< of its table, among the elements of all tables at home
  std::int32_t table;
  std::int32_t message;
  std::int32_t first_column;   ///< in the table
  std::int32_t columns;        ///< of the block
  std::int32_t table_columns;  ///< of the whole table
  std::int32_t returns;        ///< 1 if the rows come back, 0 if only their gradients are sent
};

struct DistinctMessage {
  std::int64_t first_slot;  ///< among the slots of all messages
  std::int64_t slots;
  std::int64_t returned;  ///< the first slots, whose rows come back
  std::int64_t capacity;  ///< of ids
};

/// The messages of ids, and the rows of the tables among the distinct ids of a rank.
struct DistinctIdsArgs {
  DistinctSlot const* slots;        ///< [slot_count], in device memory
  DistinctMessage const* messages;  ///< [message_count], in device memory
  std::int64_t slot_count;
  std::int64_t message_count;
  std::int64_t table_count;
  std::int64_t const* rooms;        ///< [table_count], in device memory: the most distinct rows
  std::uint32_t const* operations;  ///< [table_count], in device memory: for the report
  IdReport overflow;                ///< of tables with more distinct rows
  std::int64_t const* values;       ///< distinct rows among those of all tables, ascending
  /// The lower bounds of the first row of each slot and of the end of its rows, [2 * slot_count],
  /// and then of the first row of each table, [table_count + 1].
  std::int64_t const* bounds;
  std::int64_t most_ids;  ///< of a slot; for the size of a launch
  std::int64_t* numbers;  ///< message m begins at m * stride
  std::int64_t stride;
  std::int64_t* counts;  ///< [message_count]: of the numbers of each message
  std::int64_t* places;  ///< [slot_count]: the first row of each slot in its table at home
  ShardRows* ranges;     ///< [table_count]: the distinct rows of each table

  /// Returns the numbers [begin, end) of the distinct rows of a table, as many as there is room.
  [[nodiscard]] constexpr PlaceRange rows_of_table(std::int64_t table) const {
    auto const begin = bounds[2 * slot_count + table];
    auto const end = bounds[2 * slot_count + table + 1];
    auto const limit = begin + rooms[table];
    return {begin, end < limit ? end : limit};
  }
  [[nodiscard]] constexpr PlaceRange rows_of_slot(std::int64_t slot) const {
    auto const limit = rows_of_table(slots[slot].table).end;
    auto const begin = bounds[2 * slot];
    auto const end = bounds[2 * slot + 1];
    return {begin < limit ? begin : limit, end < limit ? end : limit};
  }
  /// Writes the header of a message and the number of its numbers.
  constexpr void write_header(std::int64_t message) const {
    auto const& about = messages[message];
    if (about.slots == 0) {
      counts[message] = 0;
      return;
    }
    auto* const offsets = numbers + message * stride;
    auto* const elements = offsets + about.slots + 1;
    std::int64_t ids = 0;
    std::int64_t floats = 0;
    for (std::int64_t s = 0; s < about.slots; ++s) {
      auto const range = rows_of_slot(about.first_slot + s);
      offsets[s] = ids;
      elements[s] = floats;
      ids += range.end - range.begin;
      floats += (range.end - range.begin) * slots[about.first_slot + s].columns;
    }
    offsets[about.slots] = ids;
    elements[about.slots] = floats;
    counts[message] = 2 * (about.slots + 1) + ids;
  }
};
/// Writes the messages, and reports tables with too many distinct rows, whose last rows are left
/// out.
void distinct_ids(HostStream stream, DistinctIdsArgs const& args);
void distinct_ids(CudaStream stream, DistinctIdsArgs const& args);

/// The rows of a slot in the messages of ids and of rows.
struct RowsOfSlot {
  std::int64_t const* ids;
  std::int64_t count;
  std::int64_t first;    ///< among the ids of the message
  std::int64_t element;  ///< the first one in the message of rows
};

/// Messages of ids that have the same slots, and messages of their rows.
struct IdMessages {
  std::int64_t const* numbers;  ///< message m begins at m * stride
  std::int64_t stride;
  std::int64_t slots;
  std::int64_t capacity;    ///< of ids
  std::int64_t row_stride;  ///< a message of rows has so many elements

  /// Returns the ids of a slot; none if the header is not one that a rank writes.
  [[nodiscard]] constexpr RowsOfSlot ids_of(std::int64_t message, std::int64_t slot) const {
    auto const* const offsets = numbers + message * stride;
    auto const begin = offsets[slot];
    auto const end = offsets[slot + 1];
    bool const is_good = begin >= 0 && begin <= end && end <= capacity;
    return is_good ? RowsOfSlot{offsets + 2 * (slots + 1) + begin, end - begin, begin, 0}
                   : RowsOfSlot{offsets, 0, 0, 0};
  }
  [[nodiscard]] constexpr std::int64_t elements_of(std::int64_t message, std::int64_t slot) const {
    auto const elements = numbers[message * stride + slots + 1 + slot];
    return elements >= 0 && elements <= row_stride ? elements : 0;
  }
  /// Returns the rows of a slot; none if the header is not one that a rank writes.
  [[nodiscard]] constexpr RowsOfSlot rows_of(std::int64_t message,
                                             std::int64_t slot,
                                             std::int64_t columns) const {
    auto rows = ids_of(message, slot);
    rows.element = elements_of(message, slot);
    bool const is_good = rows.count <= (row_stride - rows.element) / columns;
    return is_good ? rows : RowsOfSlot{rows.ids, 0, 0, 0};
  }
};

/// The rows that other ranks have asked for.
struct SentRowsArgs {
  TableDescriptor const* tables;  ///< of the first slots, whose rows are sent; in device memory
  std::int64_t table_count;
  IdMessages ids;
  std::int64_t messages;
  std::int64_t most_elements;  ///< of a slot; for the size of a launch
  float* rows;
  std::int64_t* counts;  ///< [messages]: of the elements of each message
};
/// Writes the messages of rows; an id that is none of the table's gives zeros.
void sent_rows(HostStream stream, SentRowsArgs const& args);
void sent_rows(CudaStream stream, SentRowsArgs const& args);

/// The messages of ids that a rank has sent, of different slots, and their places at home.
struct SlotsAtHome {
  DistinctSlot const* slots;        ///< of all messages, in device memory
  DistinctMessage const* messages;  ///< in device memory
  std::int64_t first_slot;
  std::int64_t slot_count;      ///< of the slots from the first one on
  std::int64_t const* numbers;  ///< the messages of ids
  std::int64_t stride;
  std::int64_t const* places;  ///< from distinct_ids()
  std::int64_t row_stride;
  std::int64_t most_elements;  ///< of a slot; for the size of a launch

  [[nodiscard]] constexpr RowsOfSlot rows_of(std::int64_t slot) const {
    auto const& about = slots[slot];
    auto const& message = messages[about.message];
    IdMessages const ids{numbers, stride, message.slots, message.capacity, row_stride};
    return ids.rows_of(about.message, slot - message.first_slot, about.columns);
  }
  /// Returns the number of elements of all rows of a message.
  [[nodiscard]] constexpr std::int64_t elements_of(std::int64_t message) const {
    auto const& about = messages[message];
    IdMessages const ids{numbers, stride, about.slots, about.capacity, row_stride};
    return about.slots == 0 ? 0 : ids.elements_of(message, about.slots);
  }
};

/// The rows that have come back, and the tables at home that have them.
struct PlacedRowsArgs {
  SlotsAtHome at;
  /// Whether the messages have the position of each row in its slot instead of its id. Otherwise
  /// the rows of a slot are all that it has.
  bool has_positions;
  float const* rows;  ///< message first_message + i begins at i * at.row_stride
  float* tables;      ///< the elements of all tables at home
  std::int64_t first_message = 0;
};
/// Copies the rows of all slots that return into the tables at home.
void placed_rows(HostStream stream, PlacedRowsArgs const& args);
void placed_rows(CudaStream stream, PlacedRowsArgs const& args);

/// The ids of messages that ids of other messages with the same slots equal.
struct TouchedIdsArgs {
  IdMessages ids;
  IdMessages others;
  std::int64_t messages;  ///< of each
  std::int64_t slots;     ///< the first ones, whose ids are looked at
  std::int64_t most_ids;  ///< of a slot; for the size of a launch
  std::int32_t* flags;    ///< [messages, flag_stride]: 1 for an id that occurs, 0 for another one
  std::int64_t flag_stride;
  std::int64_t* counts;  ///< [messages]: the flags of each message
};
/// Writes the flags of the ids, and the number of flags.
void touched_ids(HostStream stream, TouchedIdsArgs const& args);
void touched_ids(CudaStream stream, TouchedIdsArgs const& args);

/// Messages of ids, each split into one of the ids without a flag and one of those with a flag.
struct SplitIdsArgs {
  std::int64_t const* numbers;  ///< message m begins at m * stride
  std::int64_t stride;
  std::int64_t messages;
  DistinctMessage const* abouts;  ///< of message m: number m * about_step; in device memory
  std::int64_t about_step;
  DistinctSlot const* slots;
  std::int64_t most_slots;           ///< of a message; for the size of a launch
  std::int64_t most_ids;             ///< of a slot; for the size of a launch
  std::int64_t const* flags_before;  ///< [messages * flag_stride + 1]: the sums of the flags
  std::int64_t flag_stride;
  bool has_positions;  ///< whether to write the position of an id in its slot instead of the id
  std::int64_t* without;
  std::int64_t* with;

  [[nodiscard]] constexpr DistinctMessage const& about(std::int64_t message) const {
    return abouts[message * about_step];
  }
  [[nodiscard]] constexpr IdMessages ids(DistinctMessage const& of) const {
    return {numbers, stride, of.slots, of.capacity, 0};
  }
  [[nodiscard]] constexpr std::int64_t flags_between(std::int64_t message,
                                                     std::int64_t begin,
                                                     std::int64_t end) const {
    auto const* const before = flags_before + message * flag_stride;
    return before[end] - before[begin];
  }
  /// Writes the headers of both messages. Slots whose rows do not come back have no ids.
  constexpr void write_headers(std::int64_t message) const {
    auto const& of = about(message);
    for (int flag = 0; flag < 2 && of.slots > 0; ++flag) {
      auto* const offsets = (flag == 0 ? without : with) + message * stride;
      auto* const elements = offsets + of.slots + 1;
      std::int64_t sum = 0;
      std::int64_t floats = 0;
      for (std::int64_t s = 0; s < of.slots; ++s) {
        offsets[s] = sum;
        elements[s] = floats;
        if (s < of.returned) {
          auto const rows = ids(of).ids_of(message, s);
          auto const flagged = flags_between(message, rows.first, rows.first + rows.count);
          auto const count = flag == 0 ? rows.count - flagged : flagged;
          sum += count;
          floats += count * slots[of.first_slot + s].columns;
        }
      }
      offsets[of.slots] = sum;
      elements[of.slots] = floats;
    }
  }
  /// Writes id number `i` of a slot, once the headers are written.
  constexpr void write_id(std::int64_t message,
                          std::int64_t slot,
                          RowsOfSlot const& rows,
                          std::int64_t i) const {
    auto const place = rows.first + i;
    bool const is_flagged = flags_between(message, place, place + 1) != 0;
    auto const flagged = flags_between(message, rows.first, place);
    auto* const to = (is_flagged ? with : without) + message * stride;
    to[2 * (about(message).slots + 1) + to[slot] + (is_flagged ? flagged : i - flagged)] =
        has_positions ? i : rows.ids[i];
  }
};
void split_ids(HostStream stream, SplitIdsArgs const& args);
void split_ids(CudaStream stream, SplitIdsArgs const& args);

/// The gradients of the rows at home.
struct SentGradientsArgs {
  SlotsAtHome at;
  std::int64_t message_count;
  float const* values;  ///< [rows, value_columns], as in TablesRowGradients
  std::int64_t value_rows;
  std::int64_t value_columns;
  std::int64_t const* table_starts;
  float scale;
  float* rows;           ///< message m begins at m * at.row_stride
  std::int64_t* counts;  ///< [message_count]: of the elements of each message
};
/// Writes the messages of gradients, times the scale.
void sent_gradients(HostStream stream, SentGradientsArgs const& args);
void sent_gradients(CudaStream stream, SentGradientsArgs const& args);

/// The gradients that have come from all ranks, for some of the slots.
struct ReceivedGradientsArgs {
  TableDescriptor const* tables;   ///< [table_count], of the slots, in device memory
  std::int64_t const* first_rows;  ///< [table_count], in device memory
  std::int64_t table_count;
  std::int64_t first_slot;  ///< the slot of the first table
  IdMessages ids;
  std::int64_t messages;
  float const* rows;
  std::int64_t most_elements;  ///< of a slot; for the size of a launch
  std::int64_t room;           ///< for the rows of a message
  std::int64_t columns;        ///< of the widest table
  std::int64_t* keys;          ///< [messages * room]: first_rows[table] + id
  float* values;               ///< [messages * room, columns], 0 beyond a table's columns

  /// Returns the number of the first row of a slot in the result, or -1 if there is no room.
  [[nodiscard]] constexpr std::int64_t place_of(std::int64_t message,
                                                RowsOfSlot const& rows) const {
    auto const place = rows.first - ids.numbers[message * ids.stride + first_slot];
    return place >= 0 && place + rows.count <= room ? message * room + place : -1;
  }
};
/// Writes keys and values; keys to which no row belongs keep their values.
void received_gradients(HostStream stream, ReceivedGradientsArgs const& args);
void received_gradients(CudaStream stream, ReceivedGradientsArgs const& args);

}  // namespace msstream::ops::kernels
