// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "checkpoint/data_plan.hpp"
#include "checkpoint/kept_files.hpp"
#include "memory/device/device_state.hpp"

#include <msstream/base/output_file.hpp>
#include <msstream/checkpoint/writer.hpp>
#include <msstream/stream/detail/any_stream_pool.hpp>
#include <msstream/tensor/detail/any_pinned_array.hpp>

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <filesystem>
#include <mutex>
#include <optional>
#include <source_location>
#include <system_error>
#include <thread>
#include <vector>

namespace msstream::detail {

/// The implementation of checkpoint::Writer.
///
/// A checkpoint is a job, of which there is at most one at a time. The data of the file consists of
/// chunks. Those of the unstaged part are issued by save(), on the caller's thread, because later
/// updates must follow the copies. Those of the staged part, which nobody else writes, are issued
/// by the writer's thread. That thread writes all chunks, in the order of the file.
///
/// Ownership: a chunk of pinned memory is free, or belongs to one issued copy until its bytes are
/// written. `mutex_` guards the free chunks, the issued ones, the job and its failure, and the
/// files that could not be removed; the other files of the folder belong to the thread.
class SnapshotWriter {
 public:
  SnapshotWriter(checkpoint::Tensors const& tensors,
                 checkpoint::WriterOptions options,
                 OutputFile::Observer observer = {});
  SnapshotWriter(SnapshotWriter const&) = delete;
  SnapshotWriter& operator=(SnapshotWriter const&) = delete;
  ~SnapshotWriter();

  void save(checkpoint::Header header, std::source_location issued_at);
  void wait();
  [[nodiscard]] bool is_writing() const;
  [[nodiscard]] std::vector<std::filesystem::path> not_removed() const;
  [[nodiscard]] std::filesystem::path path_of(std::int64_t step) const;
  [[nodiscard]] std::size_t device_bytes() const noexcept {
    return static_cast<std::size_t>(plan_.staging_bytes());
  }
  [[nodiscard]] std::size_t pinned_bytes() const noexcept {
    return sizes_.chunk_bytes * sizes_.chunks;
  }
  /// Returns the group whose streams copy.
  [[nodiscard]] std::shared_ptr<StreamGroup> const& group() const { return pool_.group(0); }

 private:
  /// A part of the data, and the pinned memory that it is copied to.
  struct Issued {
    std::size_t chunk;
    std::size_t bytes;
    order::Position copied;
  };
  struct Job {
    checkpoint::Metadata metadata;
    std::int64_t step;
    std::optional<double> metric;
    std::source_location issued_at;
    bool given_up = false;  ///< whether save() could not issue all copies
  };
  /// Thrown on the writer's thread for a job that save() has given up.
  struct GivenUp {};

  void work();
  void write(Job const& job);
  void copy_unstaged(OutputFile& file);
  void copy_staged(OutputFile& file, std::source_location issued_at);
  void write_chunk(OutputFile& file, Issued const& issued);
  void add_to_files(Job const& job);
  /// Removes the files that are kept no longer. Those that cannot be removed stay in `files_`.
  void remove_superfluous();
  void log_not_removed(std::filesystem::path const& path, std::error_code const& error) const;
  [[nodiscard]] Issued issue(std::uint64_t begin,
                             std::uint64_t end,
                             std::size_t chunk,
                             std::source_location issued_at);
  void issue_unstaged(std::source_location issued_at);
  void give_up();
  /// Waits until there is no job, and throws the failure of the last one, if any.
  void await_job(std::unique_lock<std::mutex>& lock);
  void free_all_chunks();

  checkpoint::WriterOptions const options_;
  OutputFile::Observer const observer_;
  checkpoint::Tensors const tensors_;
  DataPlan const plan_;
  AnyStreamPool pool_;
  std::optional<AnyTensor> staging_;
  ChunkSizes const sizes_;
  std::vector<AnyPinnedArray> chunks_;
  std::vector<KeptFile> files_;

  std::mutex mutable mutex_;
  std::condition_variable changed_;
  std::vector<std::size_t> free_;
  std::deque<Issued> issued_;  ///< of the unstaged part, not yet taken by the thread
  std::optional<Job> job_;
  std::exception_ptr failure_;
  std::vector<std::filesystem::path> not_removed_;
  bool stops_ = false;
  std::thread thread_;
};

}  // namespace msstream::detail
