// SPDX-License-Identifier: Apache-2.0
#include "data/vocabulary.hpp"

#include <msstream/base/detail/require.hpp>
#include <msstream/data/string_key.hpp>

#include <algorithm>
#include <bit>
#include <utility>

namespace msstream::data::detail {

KeyTable::KeyTable(std::size_t keys)
    : entries_(std::bit_ceil(std::max<std::size_t>(16, 2 * keys))) {}

std::int64_t KeyTable::insert(std::int64_t key, std::int64_t number) {
  auto place = place_of(key);
  if (entries_[place].number >= 0) {
    return entries_[place].number;
  }
  if (2 * (used_ + 1) > entries_.size()) {
    auto const old = std::exchange(entries_, std::vector<Entry>(2 * entries_.size()));
    for (auto const& entry : old) {
      if (entry.number >= 0) {
        entries_[place_of(entry.key)] = entry;
      }
    }
    place = place_of(key);
  }
  entries_[place] = {key, number};
  ++used_;
  return number;
}

std::optional<std::string_view> Vocabulary::word(std::size_t number) const {
  if (word_ends.empty()) {
    return std::nullopt;
  }
  auto const begin = number == 0 ? 0 : word_ends[number - 1];
  return std::string_view(reinterpret_cast<char const*>(words.data()) + begin,
                          static_cast<std::size_t>(word_ends[number] - begin));
}

void Vocabulary::index() {
  require(word_ends.empty() || word_ends.size() == keys.size(),
          "{} keys and {} strings",
          keys.size(),
          word_ends.size());
  std::int64_t begin = 0;
  for (auto const end : word_ends) {
    require(begin <= end && end <= static_cast<std::int64_t>(words.size()),
            "a string that ends at byte {}; expected {} to {}",
            end,
            begin,
            words.size());
    begin = end;
  }
  numbers = KeyTable(keys.size());
  for (std::size_t i = 0; i < keys.size(); ++i) {
    auto const number = static_cast<std::int64_t>(i);
    require(numbers.insert(keys[i], number) == number, "the key {} is there twice", keys[i]);
    auto const text = word(i);
    require(!text || string_key(*text) == keys[i], "string {} is not that of its key", i);
  }
}

void VocabularyCounts::add(std::int64_t key, Chunk::Words const* words) {
  auto const next = static_cast<std::int64_t>(counted_.size());
  auto const number = numbers_.insert(key, next);
  if (number == next) {
    auto& added = counted_.emplace_back(Counted{key, 0, {}});
    bool known = false;
    if (words != nullptr) {
      auto const found = words->find(key);
      known = found != words->end();
      added.word = known ? found->second : std::string();
    }
    all_words_ = all_words_ && known;
  }
  ++counted_[static_cast<std::size_t>(number)].count;
}

Vocabulary VocabularyCounts::vocabulary(std::int64_t min_count, std::int64_t max_values) const {
  std::vector<Counted const*> chosen;
  for (auto const& counted : counted_) {
    if (counted.count >= min_count) {
      chosen.push_back(&counted);
    }
  }
  std::ranges::sort(
      chosen, {}, [](Counted const* counted) { return std::pair(-counted->count, counted->key); });
  if (max_values > 0 && chosen.size() > static_cast<std::size_t>(max_values)) {
    chosen.resize(static_cast<std::size_t>(max_values));
  }
  Vocabulary made;
  for (auto const* counted : chosen) {
    made.keys.push_back(counted->key);
    if (all_words_) {
      made.words.insert(made.words.end(), counted->word.begin(), counted->word.end());
      made.word_ends.push_back(static_cast<std::int64_t>(made.words.size()));
    }
  }
  made.words.resize((made.words.size() + 7) / 8 * 8);
  made.index();
  return made;
}

}  // namespace msstream::data::detail
