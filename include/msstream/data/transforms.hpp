// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/detail/host_state.hpp>
#include <msstream/data/chunk.hpp>
#include <msstream/data/schema.hpp>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace msstream::data {

class Reader;

namespace detail {

class FittedTransforms;
class TransformState;

}  // namespace detail

struct FitOptions {
  int threads = 2;  ///< that parse the rows, at least 1; the result does not depend on them
  std::int64_t max_rows = 0;  ///< the first rows of the reader, which alone are used; 0: all
};

/// The transforms of the columns of a schema, with what they learned from the training data:
/// vocabularies, means, deviations and quantiles. They are saved with the model, so that a server
/// makes the ids and numbers of a query that the training made of the same values, bit by bit:
///
///     Transforms const transforms(reader->schema());
///     transforms.fit(*reader);
///     Loader loader(reader, {.transforms = transforms});          // ids and numbers for the model
///     checkpoint::save(path, checkpoint::Tensors(parameters, transforms));
///
///     Transforms const transforms(schema);                        // in the server
///     checkpoint::load(path, checkpoint::Tensors(parameters, transforms));
///     Chunk const row = transforms.apply(query);
///
/// A handle: copies share what was learned, also by a later fit() or load. Those that are in a
/// Loader keep what they had when it was made. fit() and loads are not synchronised with other
/// calls; the others are thread-safe.
class Transforms {
 public:
  /// Takes the transforms that the schema's columns state; columns without are left out, so that a
  /// server needs to name only those of its queries. If none is to be fitted, they are complete.
  /// Throws std::invalid_argument for steps that the type of their column does not have, for those
  /// that are not in their order, for columns that share a vocabulary and state other options of
  /// it, and for aligned columns that are not shortened alike.
  explicit Transforms(Schema const& schema);

  /// Reads the rows of a reader, from its beginning, and learns from them; then puts the reader
  /// back to the beginning. The result depends on the rows alone. Holds a chunk for each thread,
  /// all different values of columns with a vocabulary, and all numbers of columns with
  /// quantiles(), in memory. If it throws, nothing has changed. Throws what the reader throws, also
  /// for a wrong row up to a chunk behind the last one that is used, DataError for values that
  /// cannot be transformed and for a reader without rows, and std::invalid_argument for a reader of
  /// other columns or one that a Loader uses.
  void fit(Reader& reader, FitOptions const& options = {}) const;
  /// Returns whether everything that is learned from data has been fitted or loaded.
  [[nodiscard]] bool is_fitted() const noexcept;

  /// Returns rows with the values that the model gets. Columns without transforms stay as they are;
  /// those with become int64 and float32. Rows may lack columns of the transforms. Throws
  /// DataError, which names the column, for a value that cannot be transformed, and
  /// std::invalid_argument for a column whose type or transforms are others, and before fit().
  [[nodiscard]] Chunk apply(Chunk raw) const;

  /// Returns the number of ids of a column whose last step makes ids: the rows that its embedding
  /// table needs. Throws std::invalid_argument for another column, and before fit().
  [[nodiscard]] std::int64_t id_count(std::string_view column) const;
  /// Returns the raw value that a vocabulary has for an id: the integer, or the key of the string.
  /// Empty for ids of no vocabulary. Throws std::invalid_argument for an id that the column
  /// does not have, and as id_count().
  [[nodiscard]] std::optional<std::int64_t> key(std::string_view column, std::int64_t id) const;
  /// Returns the string that a vocabulary has for an id. Empty for ids out of the vocabulary and
  /// for integers, and if the reader of the data gave only keys. Valid until the next fit() or
  /// load.
  [[nodiscard]] std::optional<std::string_view> word(std::string_view column,
                                                     std::int64_t id) const;

  /// Calls `visit` with the name and the state, for a checkpoint.
  template <class Visit>
  void visit_state(Visit&& visit) const {
    visit(std::string("transforms"), host_state());
  }

  /// For use by the library only.
  [[nodiscard]] std::shared_ptr<detail::FittedTransforms const> fitted() const;

 private:
  [[nodiscard]] std::shared_ptr<msstream::detail::HostState> host_state() const;

  std::shared_ptr<detail::TransformState> state_;
};

}  // namespace msstream::data
