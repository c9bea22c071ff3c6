// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/save.hpp"

#include "checkpoint/data_plan.hpp"
#include "memory/device/device_state.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>
#include <vector>

namespace msstream::detail {

namespace {

/// Downloads the data of the plan in chunks, of which one is copied while the file takes another.
void write_data(DataPlan const& plan, OutputFile& file, std::source_location issued_at) {
  auto const sizes = ChunkSizes::of(4 * ChunkSizes::kLargest, plan.bytes());
  struct Chunk {
    AnyPinnedArray pinned;
    std::uint64_t bytes;
    order::Position copied;
  };
  std::vector<Chunk> chunks;
  for (std::size_t i = 0; i < std::min<std::size_t>(sizes.chunks, 2); ++i) {
    chunks.push_back({AnyPinnedArray(plan.device(), sizes.chunk_bytes, 1), 0, {}});
  }
  std::uint64_t issued = 0;
  std::uint64_t written = 0;
  for (std::size_t next = 0; written < plan.bytes(); ++next) {
    if (issued < plan.bytes()) {
      auto& chunk = chunks[next % chunks.size()];
      chunk.bytes = std::min<std::uint64_t>(sizes.chunk_bytes, plan.bytes() - issued);
      chunk.copied = plan.download(issued, issued + chunk.bytes, nullptr, chunk.pinned, issued_at);
      issued += chunk.bytes;
    }
    if (next + 1 >= chunks.size()) {
      auto const& chunk = chunks[(next + 1) % chunks.size()];
      plan.device()->context->tracker->synchronize(chunk.copied);
      chunk.pinned.host_uses(AccessMode::read);
      file.write(chunk.pinned.data(), static_cast<std::size_t>(chunk.bytes));
      written += chunk.bytes;
    }
  }
}

}  // namespace

void save_checkpoint(std::filesystem::path const& path,
                     checkpoint::Tensors const& tensors,
                     checkpoint::Header const& header,
                     OutputFile::Observer observer,
                     std::source_location issued_at) {
  tensors.require_ready("checkpoint::save", true);
  DataPlan const plan(tensors);
  auto const file_header = plan.file_header(metadata_of(header));
  if (!plan.empty()) {
    require_outside_capture(*plan.device(), "checkpoint::save");
  }
  OutputFile file(path, OutputFile::Kind::regular, std::move(observer));
  file.write(file_header);
  plan.write_host_arrays(file);
  if (plan.bytes() > 0) {
    write_data(plan, file, issued_at);
    plan.device()->run_checks();
  }
  file.commit();
}

}  // namespace msstream::detail

namespace msstream::checkpoint {

void save(std::filesystem::path const& path,
          Tensors const& tensors,
          Header const& header,
          std::source_location issued_at) {
  detail::save_checkpoint(path, tensors, header, {}, issued_at);
}

}  // namespace msstream::checkpoint
