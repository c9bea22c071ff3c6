// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/data/chunk.hpp>
#include <msstream/data/schema.hpp>
#include <msstream/serve/query.hpp>

#include <cstdint>
#include <vector>

/// Rows of named columns as queries: what a client sends, as data::Transforms of the training turn
/// it into what the model gets.
///
///     Transforms const transforms(features);               // and checkpoint::load()
///     InferencePool pool(device, model, {.inputs = fields_of(features)});
///     data::Chunk row(features);
///     row.floats("age").push_back(31.0F);
///     row.add_text("country", "NO");
///     auto const ready = transforms.apply(row);
///     auto answer = pool.submit(query_of(ready, pool.options().inputs));
namespace msstream::serve {

/// Returns a field for each column of a schema, in its order, with the column's name and its width
/// as elements per row: of float32 for numbers, also those that transforms make of integers, and of
/// int64 for integers and strings, which transforms turn into ids. A jagged column becomes a field
/// of lists with room for `list_room` elements for each row of a bucket. Throws
/// std::invalid_argument if that is less than 1, and, with its name, for a column whose reader
/// converts the values of its files, such as by TextColumn::buckets or if_empty: queries would have
/// the values before that. Transforms do the same, and are saved with the model.
[[nodiscard]] std::vector<Field> fields_of(data::Schema const& schema, std::int64_t list_room = 0);

/// Returns a query with all rows of a chunk: for each field, the values of the column of its name.
/// The chunk may have more columns, and must stay unchanged until submit() returns. Throws
/// std::invalid_argument, which names the field, if the chunk has no such column, or if the column
/// has another type or width, or transforms that have not been applied; and data::DataError if the
/// columns do not have equally many rows.
[[nodiscard]] Query query_of(data::Chunk const& rows, std::vector<Field> const& fields);

}  // namespace msstream::serve
