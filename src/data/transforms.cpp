// SPDX-License-Identifier: Apache-2.0
#include "data/chunk_access.hpp"
#include "data/fitted_transforms.hpp"

#include <msstream/base/detail/require.hpp>
#include <msstream/data/data_error.hpp>
#include <msstream/data/reader.hpp>
#include <msstream/data/transforms.hpp>

#include <fmt/core.h>

#include <algorithm>
#include <utility>

namespace msstream::data {

namespace detail {

TransformState::TransformState(std::vector<Column> columns) : columns_(std::move(columns)) {
  bool const complete =
      std::ranges::all_of(columns_, [](auto const& column) { return !fitted_step(column); });
  if (complete) {
    std::vector<FittedColumn> fitted;
    for (auto const& column : columns_) {
      fitted.emplace_back(column);
    }
    fitted_ = std::make_shared<FittedTransforms>(std::move(fitted));
  }
}

std::shared_ptr<FittedTransforms const> const& TransformState::require_fitted() const {
  require(fitted_ != nullptr,
          "the transforms have not been fitted: expected fit() or checkpoint::load() first");
  return fitted_;
}

}  // namespace detail

Transforms::Transforms(Schema const& schema)
    : state_(std::make_shared<detail::TransformState>(detail::stated_by(schema))) {}

void Transforms::fit(Reader& reader, FitOptions const& options) const {
  state_->fit(reader, options);
}

bool Transforms::is_fitted() const noexcept {
  return state_->fitted() != nullptr;
}

Chunk Transforms::apply(Chunk raw) const {
  auto const& fitted = *state_->require_fitted();
  auto result = std::make_shared<Schema const>(fitted.result_of(raw.schema()));
  try {
    detail::ChunkAccess::check(raw);
    fitted.apply(raw, std::move(result));
  } catch (detail::RowError const& error) {
    throw DataError(fmt::format("row {}: {}", error.row(), error.what()));
  }
  return raw;
}

namespace {

detail::FittedColumn const& column_with_ids(detail::FittedTransforms const& fitted,
                                            std::string_view name) {
  auto const* const found = fitted.find(name);
  require(found != nullptr, "column '{}' has no transforms", name);
  static_cast<void>(found->id_count());
  return *found;
}

/// Returns the number of an id in a vocabulary; empty if the id is of no vocabulary's.
std::optional<std::size_t> number_of_id(detail::FittedColumn const& column, std::int64_t id) {
  require(id >= 0 && id < column.id_count(),
          "column '{}' has no id {}; expected 0 to {}",
          column.raw.name,
          id,
          column.id_count() - 1);
  auto const first = column.raw.transforms.back().buckets;
  return !column.vocabulary || id < first ? std::nullopt
                                          : std::optional(static_cast<std::size_t>(id - first));
}

}  // namespace

std::int64_t Transforms::id_count(std::string_view column) const {
  return column_with_ids(*state_->require_fitted(), column).id_count();
}

std::optional<std::int64_t> Transforms::key(std::string_view column, std::int64_t id) const {
  auto const& found = column_with_ids(*state_->require_fitted(), column);
  auto const number = number_of_id(found, id);
  return number ? std::optional(found.vocabulary->keys[*number]) : std::nullopt;
}

std::optional<std::string_view> Transforms::word(std::string_view column, std::int64_t id) const {
  auto const& found = column_with_ids(*state_->require_fitted(), column);
  auto const number = number_of_id(found, id);
  return number ? found.vocabulary->word(*number) : std::nullopt;
}

std::shared_ptr<detail::FittedTransforms const> Transforms::fitted() const {
  return state_->require_fitted();
}

std::shared_ptr<msstream::detail::HostState> Transforms::host_state() const {
  return state_;
}

}  // namespace msstream::data
