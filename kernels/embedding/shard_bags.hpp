// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/existing_places.hpp"
#include "common/host_device.hpp"
#include "common/id_array.hpp"
#include "common/id_report.hpp"
#include "embedding/pooling_divisor.hpp"
#include "ids/bag_offsets.hpp"

#include <msstream/ops/choices.hpp>
#include <msstream/runtime/stream_ref.hpp>

#include <cstdint>

/// The messages in which ranks send each other the bags of tables. A message consists of int64
/// numbers: the offsets of `slots * most_bags + 1` bags, table by table, into the ids that follow
/// them. Tables in a message are its slots.
namespace msstream::ops::kernels {

/// A table in one message.
struct ShardSlot {
  std::int64_t rows;           ///< of the whole table
  std::int64_t first_hotness;  ///< the sum of the hotness of the tables before it
  std::int32_t table;
  std::int32_t hotness;
  std::int32_t message;
  std::int32_t
      reports;  ///< 1 in the first slot of the table, which reports its bad ids, otherwise 0
  std::int64_t default_id = -1;  ///< sent for a bag without a valid id; none if negative
};

struct ShardMessage {
  std::int64_t first_slot;  ///< among the slots of all messages
  std::int64_t slots;
  std::int64_t capacity;  ///< of ids
};

/// The bags of many tables, as TableBags has them: `bags` of each table, of which the first *count
/// exist.
struct ShardBags {
  IdArray ids;
  IdArray offsets;        ///< [tables * bags + 1]; null if each bag has the table's hotness
  std::int64_t capacity;  ///< of ids
  std::int64_t tables;
  std::int64_t bags;
  std::int64_t const* count;
  float const* weights = nullptr;  ///< of the ids' shape, or null

  [[nodiscard]] constexpr PlaceRange places_of(ShardSlot const& slot, std::int64_t bag) const {
    auto const number = slot.table * bags + bag;
    if (offsets.wide != nullptr) {
      return BagOffsets<std::int64_t>{offsets.wide, tables * bags, capacity}.places_of(number);
    }
    if (offsets.narrow != nullptr) {
      return BagOffsets<std::int32_t>{offsets.narrow, tables * bags, capacity}.places_of(number);
    }
    auto const begin = slot.first_hotness * bags + bag * slot.hotness;
    return {begin, begin + slot.hotness};
  }
  /// Returns the places of a bag that has `length` of them by places_of(), at least one. The
  /// offsets are not compared with those of other bags again.
  [[nodiscard]] constexpr PlaceRange places_of_length(ShardSlot const& slot,
                                                      std::int64_t bag,
                                                      std::int64_t length) const {
    bool const has_offsets = offsets.wide != nullptr || offsets.narrow != nullptr;
    auto const begin = has_offsets ? offsets.at(slot.table * bags + bag)
                                   : slot.first_hotness * bags + bag * slot.hotness;
    bool const is_within = begin >= 0 && length <= capacity - begin;
    return is_within ? PlaceRange{begin, begin + length} : places_of(slot, bag);
  }
  /// Returns whether a bag with these places has the default id of its table instead of its ids, of
  /// which none is valid.
  [[nodiscard]] constexpr bool takes_default(ShardSlot const& slot, PlaceRange const& range) const {
    if (slot.default_id < 0) {
      return false;
    }
    for (auto place = range.begin; place < range.end; ++place) {
      if (is_in_range(ids.at(place), slot.rows)) {
        return false;
      }
    }
    return true;
  }
  /// Returns the number of ids that are sent for a bag.
  [[nodiscard]] constexpr std::int64_t sent_count(ShardSlot const& slot, std::int64_t bag) const {
    auto const range = places_of(slot, bag);
    return takes_default(slot, range) ? 1 : range.end - range.begin;
  }
  /// Returns whether a bag has offsets, and invalid ones.
  [[nodiscard]] constexpr bool is_bad(std::int64_t number) const {
    return offsets.wide != nullptr
               ? BagOffsets<std::int64_t>{offsets.wide, tables * bags, capacity}.is_bad(number)
           : offsets.narrow != nullptr
               ? BagOffsets<std::int32_t>{offsets.narrow, tables * bags, capacity}.is_bad(number)
               : false;
  }
};

struct SentBagsArgs {
  ShardSlot const* slots;  ///< [slot_count], in device memory
  std::int64_t slot_count;
  ShardMessage const* messages;  ///< [message_count], in device memory
  std::int64_t message_count;
  std::int64_t most_bags;  ///< of a table in a message; those from bags.bags on are empty
  ShardBags bags;
  IdReport report;    ///< of bad ids and bad bags
  IdReport overflow;  ///< of bags whose ids do not fit into a message
};
/// Computes the number of ids of each bag, [slot_count * most_bags].
void sent_lengths(HostStream stream, SentBagsArgs const& args, std::int64_t* lengths);
void sent_lengths(CudaStream stream, SentBagsArgs const& args, std::int64_t* lengths);

struct SentIds {
  std::int64_t const* offsets;  ///< [slot_count * most_bags + 1], the sums of the sent lengths
  std::int64_t* messages;       ///< message m begins at m * stride
  std::int64_t stride;
  std::int64_t* counts;            ///< of the numbers of each message
  float* weights = nullptr;        ///< those of message m begin at m * weight_stride; or null
  std::int64_t weight_stride = 0;  ///< at least the largest capacity
};
/// Writes the messages; one without slots has no numbers. Ids beyond the capacity of a message are
/// left out, and reported.
void sent_ids(HostStream stream, SentBagsArgs const& args, SentIds const& to);
void sent_ids(CudaStream stream, SentBagsArgs const& args, SentIds const& to);

/// The rows of a table that a rank has, and the number of the first of them in the result.
struct ShardRows {
  std::int64_t first;
  std::int64_t count;
  std::int64_t number = 0;

  /// Returns the number of the row that an id names, or -1.
  [[nodiscard]] constexpr std::int64_t number_of(std::int64_t id) const {
    return is_in_range(id - first, count) ? id - first + number : -1;
  }
};
/// Messages with the same slots from all ranks. Bag b of rank q in slot s is bag (s * ranks + q) *
/// most_bags + b of the result.
struct ReceivedBagsArgs {
  ShardRows const* rows;  ///< [slots], in device memory
  std::int64_t slots;
  std::int64_t ranks;
  std::int64_t most_bags;
  std::int64_t const* messages;
  std::int64_t stride;
  std::int64_t capacity;  ///< of ids in a message
  /// The ids of the only rank, in the place of those that follow the offsets; or null.
  std::int64_t const* ids = nullptr;
  float const* weights = nullptr;  ///< those of rank q begin at q * weight_stride; or null
  std::int64_t weight_stride = 0;

  [[nodiscard]] constexpr std::int64_t bags() const { return slots * ranks * most_bags; }
  /// Returns the offsets of the message of a rank.
  [[nodiscard]] constexpr BagOffsets<std::int64_t> of_rank(std::int64_t rank) const {
    return {messages + rank * stride, slots * most_bags, capacity};
  }
  [[nodiscard]] constexpr PlaceRange places_of(std::int64_t bag) const {
    auto const rank = bag / most_bags % ranks;
    auto const slot = bag / most_bags / ranks;
    return of_rank(rank).places_of(slot * most_bags + bag % most_bags);
  }
  /// The place of a bag in the messages.
  struct Place {
    std::int64_t slot;
    std::int64_t rank;
    std::int64_t number;  ///< among the bags of the message
  };
  [[nodiscard]] constexpr Place place_of(std::int64_t bag) const {
    auto const slot_and_rank = bag / most_bags;
    auto const slot = slot_and_rank / ranks;
    return {slot, slot_and_rank - slot * ranks, bag + (slot - slot_and_rank) * most_bags};
  }
  /// Returns the first place of a bag that has `length` places by places_of(), at least one. The
  /// offsets are not compared with those of other bags again.
  [[nodiscard]] constexpr std::int64_t first_of(Place const& place, std::int64_t length) const {
    auto const offsets = of_rank(place.rank);
    auto const first = offsets.at[place.number];
    return first >= 0 && length <= capacity - first ? first : offsets.places_of(place.number).begin;
  }
  [[nodiscard]] constexpr std::int64_t const* ids_of(Place const& place) const {
    return ids != nullptr ? ids : messages + place.rank * stride + slots * most_bags + 1;
  }
  [[nodiscard]] constexpr float const* weights_of(Place const& place) const {
    return weights + place.rank * weight_stride;
  }
};
/// Computes the number of ids of each bag, [slots * ranks * most_bags].
void received_lengths(HostStream stream, ReceivedBagsArgs const& args, std::int64_t* lengths);
void received_lengths(CudaStream stream, ReceivedBagsArgs const& args, std::int64_t* lengths);

/// Writes the ids of all bags, by their offsets: the number of the row of the rank's part, or -1 if
/// another rank has it. With weights, also writes those of the ids.
void received_ids(HostStream stream,
                  ReceivedBagsArgs const& args,
                  std::int64_t const* offsets,
                  std::int64_t* ids,
                  float* weights = nullptr);
void received_ids(CudaStream stream,
                  ReceivedBagsArgs const& args,
                  std::int64_t const* offsets,
                  std::int64_t* ids,
                  float* weights = nullptr);

/// Tables whose pooled sums are divided at home.
struct BagDivisorsArgs {
  ShardSlot const* tables;  ///< [table_count], in device memory
  Pooling const* poolings;  ///< [table_count], in device memory: mean or sqrtn
  std::int64_t table_count;
  ShardBags bags;
  float* divisors;  ///< [table_count, bags.bags]
};
/// Returns the divisor of a bag, over the ids within the whole table. Of a default id it is 1.
[[nodiscard]] MSSTREAM_HOST_DEVICE inline float divisor_of_bag(BagDivisorsArgs const& args,
                                                               std::int64_t table,
                                                               std::int64_t bag) {
  auto const& slot = args.tables[table];
  auto const range = args.bags.places_of(slot, bag);
  PoolingDivisor divisor;
  for (auto place = range.begin; place < range.end; ++place) {
    if (is_in_range(args.bags.ids.at(place), slot.rows)) {
      ++divisor.valid;
      if (args.bags.weights != nullptr) {
        divisor.add_weight(args.poolings[table], args.bags.weights[place]);
      }
    }
  }
  bool const takes_default = divisor.valid == 0 && slot.default_id >= 0;
  return takes_default ? 1.0F : divisor.get(args.poolings[table], args.bags.weights != nullptr);
}
/// Computes the divisors of all bags.
void bag_divisors(HostStream stream, BagDivisorsArgs const& args);
void bag_divisors(CudaStream stream, BagDivisorsArgs const& args);

}  // namespace msstream::ops::kernels
