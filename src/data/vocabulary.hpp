// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/data/chunk.hpp>
#include <msstream/data/detail/counter_random.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace msstream::data::detail {

/// Returns the bucket that ops::hash_to_bucket() returns.
[[nodiscard]] constexpr std::int64_t salted_bucket(std::int64_t key,
                                                   std::int64_t buckets,
                                                   std::uint64_t salt) noexcept {
  return static_cast<std::int64_t>(mix64(static_cast<std::uint64_t>(key) + salt) %
                                   static_cast<std::uint64_t>(buckets));
}

/// A map from keys to numbers of at least 0: a hash table with open addressing and linear probing,
/// at most half full.
class KeyTable {
 public:
  /// Makes a table that takes `keys` keys without growing.
  explicit KeyTable(std::size_t keys = 0);

  /// Returns the number of a key; -1 if it has none.
  [[nodiscard]] std::int64_t find(std::int64_t key) const noexcept {
    return entries_[place_of(key)].number;
  }
  /// Gives a key that has no number the number `number`. Returns the number that it has then.
  std::int64_t insert(std::int64_t key, std::int64_t number);

 private:
  struct Entry {
    std::int64_t key = 0;
    std::int64_t number = -1;
  };

  /// Returns where the key is, or the free place where it would be.
  [[nodiscard]] std::size_t place_of(std::int64_t key) const noexcept {
    auto const mask = entries_.size() - 1;
    auto place = mix64(static_cast<std::uint64_t>(key)) & mask;
    while (entries_[place].number >= 0 && entries_[place].key != key) {
      place = (place + 1) & mask;
    }
    return place;
  }

  std::vector<Entry> entries_;
  std::size_t used_ = 0;
};

/// The values that have an id of their own, by number: the id without those out of the vocabulary.
struct Vocabulary {
  std::vector<std::int64_t> keys;
  /// The strings, one after the other, and the end of each; both empty if they are not known. Zeros
  /// fill the strings up to a multiple of 8 bytes.
  std::vector<std::uint8_t> words;
  std::vector<std::int64_t> word_ends;
  KeyTable numbers;

  /// Makes the table of the keys. Throws std::invalid_argument if they and the strings do not fit
  /// together.
  void index();
  [[nodiscard]] std::optional<std::string_view> word(std::size_t number) const;
};

/// Counts the values of a column, and makes a vocabulary of them.
class VocabularyCounts {
 public:
  /// Counts a key. `words` has the strings of keys; null if they are not known.
  void add(std::int64_t key, Chunk::Words const* words);
  /// Returns the values that occur at least `min_count` times, at most `max_values` (0: all).
  [[nodiscard]] Vocabulary vocabulary(std::int64_t min_count, std::int64_t max_values) const;

 private:
  struct Counted {
    std::int64_t key;
    std::int64_t count;
    std::string word;
  };
  KeyTable numbers_;
  std::vector<Counted> counted_;
  bool all_words_ = true;
};

}  // namespace msstream::data::detail
