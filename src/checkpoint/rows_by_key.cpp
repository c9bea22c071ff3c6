// SPDX-License-Identifier: Apache-2.0
#include "data/fitted_transforms.hpp"
#include "data/vocabulary.hpp"

#include <msstream/checkpoint/checkpoint.hpp>
#include <msstream/data/transforms.hpp>

namespace msstream::checkpoint {

std::vector<std::int64_t> rows_by_key(data::Transforms const& now,
                                      data::Transforms const& before,
                                      std::string_view column) {
  auto const count = now.id_count(column);
  auto const count_before = before.id_count(column);  // refuses a column without ids
  auto const fitted = before.fitted();
  auto const& old = *fitted->find(column);
  auto const fitted_now = now.fitted();
  auto const& found = *fitted_now->find(column);
  auto const& step = old.raw.transforms.back();
  auto const& step_now = found.raw.transforms.back();
  bool const same_others = step.kind == step_now.kind && step.buckets == step_now.buckets &&
                           step.salt == step_now.salt && step.unit == step_now.unit &&
                           old.boundaries == found.boundaries;
  std::vector<std::int64_t> rows;
  rows.reserve(static_cast<std::size_t>(count));
  for (std::int64_t id = 0; id < count; ++id) {
    auto const key = now.key(column, id);
    if (!key) {
      rows.push_back(same_others && id < count_before ? id : -1);
      continue;
    }
    auto const number = old.vocabulary ? old.vocabulary->numbers.find(*key) : -1;
    rows.push_back(number < 0 ? -1 : step.buckets + number);
  }
  return rows;
}

}  // namespace msstream::checkpoint
