// SPDX-License-Identifier: Apache-2.0
#include "data/loader_engine.hpp"

#include <msstream/base/error.hpp>
#include <msstream/data/loader.hpp>

#include <utility>

namespace msstream::data {

Loader::Loader(std::shared_ptr<Reader> reader, LoaderOptions const& options)
    : Loader(std::move(reader), options, {}) {}

Loader::Loader(Reader& reader, LoaderOptions const& options)
    : Loader(std::shared_ptr<Reader>(std::shared_ptr<Reader>(), &reader), options) {}

Loader::Loader(std::shared_ptr<Reader> reader,
               LoaderOptions const& options,
               detail::NewBatchMemory new_memory) {
  require(reader != nullptr, "loader: there is no reader");
  engine_ =
      std::make_unique<detail::LoaderEngine>(std::move(reader), options, std::move(new_memory));
}

Loader::Loader(Loader&&) noexcept = default;
Loader& Loader::operator=(Loader&&) noexcept = default;
Loader::~Loader() = default;

Schema const& Loader::schema() const noexcept {
  return engine_->schema();
}

std::optional<Batch> Loader::next() {
  return engine_->next();
}

LoaderPosition Loader::position() const {
  return engine_->position();
}

void Loader::stop() {
  engine_->stop();
}

}  // namespace msstream::data
