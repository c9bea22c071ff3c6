// SPDX-License-Identifier: Apache-2.0
#include "common/existing_places.hpp"
#include "common/require_int32.hpp"
#include "ids/bag_layout.hpp"
#include "ids/deduplicate.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <utility>

namespace msstream::ops::kernels {
namespace {

template <class Word>
struct Entry {
  Word id;
  Word position;
};

constexpr unsigned kDigitBits = 8;
constexpr std::size_t kDigits = std::size_t{1} << kDigitBits;

template <class Word>
std::size_t digit(Word id, unsigned shift) {
  return static_cast<std::size_t>(id >> shift) & (kDigits - 1);
}

/// Sorts entries by the lower `bits` of their ids, and keeps the order of equal ids. Returns the
/// array that holds the result, `entries` or `spare` (Knuth, The Art of Computer Programming, vol.
/// 3, 5.2.5).
template <class Word>
Entry<Word>* radix_sort(Entry<Word>* entries,
                        Entry<Word>* spare,
                        std::int64_t count,
                        unsigned bits) {
  for (unsigned shift = 0; shift < bits; shift += kDigitBits) {
    std::array<std::int64_t, kDigits> next{};
    for (std::int64_t i = 0; i < count; ++i) {
      ++next[digit(entries[i].id, shift)];
    }
    std::int64_t before = 0;
    for (auto& place : next) {
      before += std::exchange(place, before);
    }
    for (std::int64_t i = 0; i < count; ++i) {
      spare[next[digit(entries[i].id, shift)]++] = entries[i];
    }
    std::swap(entries, spare);
  }
  return entries;
}

template <class Word, class Id>
void group_equal_ids(DeduplicateArgs const& args, IdBags<Id> const& all_bags) {
  auto const bags = all_bags.looked_at();
  auto* const entries = static_cast<Entry<Word>*>(args.workspace);
  auto const capacity = place_capacity(args.bags);
  std::int64_t valid = 0;
  auto const add = [&](std::int64_t id, std::int64_t place) {
    if (is_in_range(id, args.rows)) {
      entries[valid++] = {static_cast<Word>(id), static_cast<Word>(place)};
    }
  };
  auto const add_all = [&](PlaceRange places) {
    for (auto place = places.begin; place < places.end; ++place) {
      add(bags.ids[place], place);
    }
  };
  if (bags.offsets == nullptr || bags.ascend || !args.pools) {
    add_all(bags.existing_places());
  } else {
    // The positions of bags with valid offsets ascend from bag to bag.
    for (std::int64_t bag = 0; bag < bags.existing(); ++bag) {
      add_all(bags.places_of(bag));
    }
  }
  for (std::int64_t bag = 0; bags.default_id >= 0 && bag < bags.existing(); ++bag) {
    auto const range = bags.places_of(bag);
    if (std::none_of(bags.ids + range.begin, bags.ids + range.end, [&](Id id) {
          return is_in_range(id, args.rows);
        })) {
      add(bags.default_id, bags.capacity + bag);
    }
  }
  auto const bits =
      valid > 0 ? static_cast<unsigned>(std::bit_width(static_cast<std::uint64_t>(args.rows - 1)))
                : 0U;
  auto const* const sorted = radix_sort(entries, entries + capacity, valid, bits);
  std::int64_t uniques = 0;
  for (std::int64_t k = 0; k < valid; ++k) {
    if (k == 0 || sorted[k].id != sorted[k - 1].id) {
      args.unique_ids[uniques] = static_cast<std::int64_t>(sorted[k].id);
      args.starts[uniques++] = static_cast<std::int32_t>(k);
    }
    args.positions[k] = static_cast<std::int32_t>(sorted[k].position);
    args.ranks[k] = static_cast<std::int32_t>(uniques - 1);
  }
  std::fill(args.ranks + valid, args.ranks + capacity, -1);
  args.starts[uniques] = static_cast<std::int32_t>(valid);
  *args.unique_count = uniques;
}

}  // namespace

std::size_t deduplicate_workspace_bytes(HostStream, std::int64_t places) {
  return 2 * sizeof(Entry<std::uint64_t>) * static_cast<std::size_t>(places);
}

void deduplicate(HostStream stream, DeduplicateArgs const& args) {
  auto const places = place_capacity(args.bags);
  require_int32("deduplicate", places, "places of ids");
  with_id_type("deduplicate", args.bags, [&](auto const& bags) {
    stream.run([args, bags] {
      // If all ids fit in 32 bits, 32-bit entries halve the memory that the sort moves. Positions
      // always fit.
      if (args.rows <= std::int64_t{std::numeric_limits<std::uint32_t>::max()}) {
        group_equal_ids<std::uint32_t>(args, bags);
      } else {
        group_equal_ids<std::uint64_t>(args, bags);
      }
    });
  });
}

}  // namespace msstream::ops::kernels
