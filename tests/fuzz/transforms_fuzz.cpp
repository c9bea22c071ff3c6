// SPDX-License-Identifier: Apache-2.0
// Fuzzes the loading of what transforms have learned. The input is the description of the columns,
// the keys, words and ends of words of a vocabulary, with 0xFF bytes between them. They must either
// be refused by an exception, or be learned: then they can be saved and loaded unchanged, and rows
// become ids that there are.
#include "data/fitted_transforms.hpp"
#include "fuzz.hpp"

#include <msstream/data/transforms.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <map>
#include <stdexcept>

namespace {

using namespace msstream;
using data::Transform;
using detail::HostState;
using fuzz::expect;
using Arrays = std::map<std::string, HostState::Found>;

data::Schema schema() {
  return data::Schema(
      {{.name = "x", .width = 2, .transforms = {Transform::clip(-1, 1), Transform::normalize()}},
       {.name = "word",
        .type = data::ColumnType::hashed,
        .transforms = {Transform::vocabulary({.oov_buckets = 2})}},
       {.name = "site",
        .type = data::ColumnType::hashed,
        .transforms = {Transform::hash({.buckets = 5})}}});
}

HostState::Found array_of(DType dtype, std::string_view bytes) {
  HostState::Found found{.dtype = dtype, .shape = {}, .bytes = {}};
  bytes = bytes.substr(0, bytes.size() / bytes_of(dtype) * bytes_of(dtype));
  found.shape = {static_cast<std::int64_t>(bytes.size() / bytes_of(dtype))};
  found.bytes.resize(bytes.size());
  std::ranges::copy(std::as_bytes(std::span(bytes)), found.bytes.begin());
  return found;
}

bool load(data::Transforms const& transforms, Arrays const& arrays) {
  try {
    std::shared_ptr<HostState> state;
    transforms.visit_state([&](std::string const&, auto found) { state = std::move(found); });
    state->read([&](std::string const& name) {
      auto const found = arrays.find(name);
      return found == arrays.end() ? std::nullopt : std::optional(found->second);
    })();
    return true;
  } catch (std::invalid_argument const& error) {
    expect(std::strlen(error.what()) < 20'000, "a message of {} bytes", std::strlen(error.what()));
    return false;
  }
}

Arrays save(data::Transforms const& transforms) {
  Arrays arrays;
  transforms.visit_state([&](std::string const&, auto const& state) {
    for (auto const& array : state->arrays()) {
      arrays[array.name] = {array.dtype, array.shape, {array.bytes.begin(), array.bytes.end()}};
    }
  });
  return arrays;
}

bool equal(Arrays const& a, Arrays const& b) {
  return std::ranges::equal(a, b, [](auto const& x, auto const& y) {
    return x.first == y.first && x.second.shape == y.second.shape &&
           x.second.bytes == y.second.bytes;
  });
}

void check_ids(data::Transforms const& transforms) {
  auto const count = transforms.id_count("word");
  data::Chunk raw(schema());
  std::vector<std::int64_t> ids{0, 1};
  raw.add_text("word", "unknown");
  raw.add_text("word", "");
  for (std::int64_t id = 2; id < count; ++id) {
    raw.ints("word").push_back(transforms.key("word", id).value());
    static_cast<void>(transforms.word("word", id));
    ids.push_back(id);
  }
  raw.floats("x").assign(2 * ids.size(), 0.5F);
  raw.ints("site").assign(ids.size(), 7);
  try {
    auto const made = transforms.apply(raw);
    for (std::size_t row = 0; row < ids.size(); ++row) {
      auto const id = made.ints("word")[row];
      expect(row < 2 ? id >= 0 && id < count : id == ids[row], "id {} of row {}", id, row);
    }
    expect(std::ranges::all_of(made.floats("x"), [](float x) { return std::isfinite(x); }),
           "a number is not finite");
  } catch (data::DataError const&) {  // a tiny deviation makes numbers too large
  }
}

}  // namespace

int LLVMFuzzerTestOneInput(std::uint8_t const* bytes, std::size_t count) {
  std::array<std::string_view, 4> parts;
  auto rest = fuzz::as_text(bytes, count);
  for (auto& part : parts) {
    part = rest.substr(0, rest.find('\xFF'));
    rest.remove_prefix(std::min(part.size() + 1, rest.size()));
  }
  Arrays arrays{{"transforms/columns", array_of(DType::uint8, parts[0])},
                {"transforms/word/keys", array_of(DType::int64, parts[1])}};
  if (!parts[3].empty()) {
    arrays["transforms/word/words"] = array_of(DType::uint8, parts[2]);
    arrays["transforms/word/word_ends"] = array_of(DType::int64, parts[3]);
  }
  data::Transforms const transforms(schema());
  if (!load(transforms, arrays)) {
    expect(!transforms.is_fitted(), "refused, and fitted");
    return 0;
  }
  check_ids(transforms);
  auto const saved = save(transforms);
  data::Transforms const again(schema());
  expect(load(again, saved) && equal(save(again), saved), "it does not come back as it was saved");
  return 0;
}
