// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/snapshot_writer.hpp"

#include "base/unheard_failure.hpp"

#include <msstream/base/detail/require.hpp>
#include <msstream/base/detail/start_thread.hpp>
#include <msstream/runtime/detail/home_process.hpp>
#include <msstream/stream/detail/any_stream_scope.hpp>
#include <msstream/trace/name_scope.hpp>

#include <fmt/core.h>

#include <algorithm>
#include <numeric>
#include <string_view>
#include <system_error>
#include <utility>

namespace msstream::detail {

namespace {

constexpr std::size_t kLeastPinned = 1024;

checkpoint::WriterOptions checked(checkpoint::WriterOptions options) {
  require(!options.folder.empty(), "checkpoint::Writer: the option folder is empty");
  require(!options.name.empty() && options.name.find('/') == std::string::npos,
          "checkpoint::Writer: the name '{}'; expected a name without '/'",
          options.name);
  require(options.keep_last >= 0,
          "checkpoint::Writer: keep_last is {}; expected at least 0",
          options.keep_last);
  require(options.keep_best >= 0,
          "checkpoint::Writer: keep_best is {}; expected at least 0",
          options.keep_best);
  require(options.pinned_bytes >= kLeastPinned,
          "checkpoint::Writer: pinned_bytes is {}; expected at least {}",
          options.pinned_bytes,
          kLeastPinned);
  return options;
}

checkpoint::Tensors const& with_tensors(checkpoint::Tensors const& tensors) {
  require(tensors.count() > 0, "checkpoint::Writer: the list has no tensors");
  tensors.require_ready("checkpoint::Writer", false);
  return tensors;
}

StreamPoolOptions pool_options() {
  StreamPoolOptions options;
  options.groups = 1;
  options.merge_streams = false;
  options.sm_partitions = 1;
  options.launch_threads = LaunchThreads::none;
  options.launch_thread_count = 0;
  options.libraries = StreamPoolOptions::LibrariesMade::when_needed;
  options.assignment = std::nullopt;
  options.propagate_groups = false;
  return options;
}

/// Rethrows an error of a file with the step that it concerns.
[[noreturn]] void rethrow_of_step(std::int64_t step) {
  auto const message = [&](std::string_view what) {
    return fmt::format("checkpoint of step {}: {}", step, what);
  };
  try {
    throw;
  } catch (std::system_error const& error) {
    std::string_view what = error.what();
    auto const meaning = ": " + error.code().message();  // the new error appends it again
    if (what.ends_with(meaning)) {
      what.remove_suffix(meaning.size());
    }
    throw std::system_error(error.code(), message(what));
  } catch (std::invalid_argument const& error) {
    throw std::invalid_argument(message(error.what()));
  }
}

}  // namespace

SnapshotWriter::SnapshotWriter(checkpoint::Tensors const& tensors,
                               checkpoint::WriterOptions options,
                               OutputFile::Observer observer)
    : options_(checked(std::move(options))),
      observer_(std::move(observer)),
      tensors_(with_tensors(tensors)),
      plan_(tensors_, options_.device_bytes),
      pool_(plan_.device()->context, pool_options()),
      sizes_(ChunkSizes::of(options_.pinned_bytes, plan_.bytes())) {
  require_outside_capture(*plan_.device(), "checkpoint::Writer");
  NameScope const name("checkpoint");
  AnyStreamScope const scope(group(), {}, std::source_location::current());
  if (device_bytes() > 0) {
    staging_.emplace(
        plan_.device(), DType::uint8, Shape{static_cast<std::int64_t>(device_bytes())});
  }
  for (std::size_t i = 0; i < sizes_.chunks; ++i) {
    chunks_.emplace_back(plan_.device(), sizes_.chunk_bytes, 1);
  }
  free_all_chunks();
  std::filesystem::create_directories(options_.folder);
  files_ = kept_files(options_.folder, options_.name);
  thread_ = start_thread("a writer of checkpoints", [this] { work(); });
}

SnapshotWriter::~SnapshotWriter() {
  {
    std::lock_guard const guard(mutex_);
    stops_ = true;
  }
  changed_.notify_all();
  thread_.join();
  if (failure_ != nullptr) {
    UnheardFailure::log("a checkpoint", failure_);
  }
}

bool SnapshotWriter::is_writing() const {
  std::lock_guard const guard(mutex_);
  return job_.has_value();
}

std::filesystem::path SnapshotWriter::path_of(std::int64_t step) const {
  return options_.folder / file_name_of(options_.name, step);
}

void SnapshotWriter::await_job(std::unique_lock<std::mutex>& lock) {
  changed_.wait(lock, [&] { return !job_; });
  if (failure_ != nullptr) {
    std::rethrow_exception(std::exchange(failure_, nullptr));
  }
}

void SnapshotWriter::wait() {
  std::unique_lock lock(mutex_);
  await_job(lock);
}

void SnapshotWriter::free_all_chunks() {
  free_.resize(chunks_.size());
  std::iota(free_.begin(), free_.end(), 0U);
}

void SnapshotWriter::save(checkpoint::Header header, std::source_location issued_at) {
  require_outside_capture(*plan_.device(), "checkpoint::Writer::save");
  tensors_.require_ready("checkpoint::Writer::save", true);
  auto const step = header.step;
  auto const metric = header.metric;
  Job job{metadata_of(std::move(header)), step, metric, issued_at};
  wait();
  // s = [stage | unstaged chunks on d2h]; later writes of the tensors follow these reads, and the
  // thread's copies follow the write of the staging memory.
  AnyStreamScope const scope(group(), {}, issued_at);
  if (staging_) {
    plan_.stage(*staging_, issued_at);
  }
  {
    std::lock_guard const guard(mutex_);
    free_all_chunks();
    issued_.clear();
    job_ = std::move(job);
  }
  changed_.notify_all();
  try {
    issue_unstaged(issued_at);
  } catch (...) {
    give_up();
    throw;
  }
}

void SnapshotWriter::issue_unstaged(std::source_location issued_at) {
  std::uint64_t const end = plan_.unstaged_bytes();
  for (std::uint64_t begin = 0; begin < end; begin += sizes_.chunk_bytes) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return !job_ || !free_.empty(); });
    if (!job_) {
      await_job(lock);  // throws the failure of the thread
      return;
    }
    auto const chunk = free_.back();
    free_.pop_back();
    lock.unlock();
    auto const issued =
        issue(begin, std::min<std::uint64_t>(begin + sizes_.chunk_bytes, end), chunk, issued_at);
    lock.lock();
    issued_.push_back(issued);
    lock.unlock();
    changed_.notify_all();
  }
}

void SnapshotWriter::give_up() {
  std::unique_lock lock(mutex_);
  if (job_) {
    job_->given_up = true;
    changed_.notify_all();
    changed_.wait(lock, [&] { return !job_; });
    failure_ = nullptr;  // save() throws what went wrong first
  }
}

SnapshotWriter::Issued SnapshotWriter::issue(std::uint64_t begin,
                                             std::uint64_t end,
                                             std::size_t chunk,
                                             std::source_location issued_at) {
  auto const copied =
      plan_.download(begin, end, staging_ ? &*staging_ : nullptr, chunks_[chunk], issued_at);
  return {chunk, static_cast<std::size_t>(end - begin), copied};
}

void SnapshotWriter::work() {
  // A failure of the device that this thread meets first is also thrown to the training.
  UnheardFailure const dropped;
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return job_ || stops_; });
    if (!job_) {
      return;
    }
    Job const job = *job_;  // give_up() changes job_
    lock.unlock();
    std::exception_ptr failure;
    try {
      write(job);
    } catch (GivenUp const&) {  // NOLINT(bugprone-empty-catch): save() throws the reason
    } catch (...) {
      failure = std::current_exception();
    }
    lock.lock();
    failure_ = std::move(failure);
    job_.reset();
    changed_.notify_all();
  }
}

void SnapshotWriter::write(Job const& job) {
  try {
    auto metadata = job.metadata;
    metadata.emplace(kSequenceKey, std::to_string(files_.empty() ? 1 : files_.back().sequence + 1));
    metadata.emplace(kBestKey, options_.higher_is_better ? kHighest : kLowest);
    auto const header = plan_.file_header(metadata);
    AnyStreamScope const scope(group(), {}, job.issued_at);
    OutputFile file(path_of(job.step), OutputFile::Kind::regular, observer_);
    file.write(header);
    plan_.write_host_arrays(file);
    copy_unstaged(file);
    copy_staged(file, job.issued_at);
    file.commit();
    add_to_files(job);
  } catch (GivenUp const&) {
    throw;
  } catch (...) {
    rethrow_of_step(job.step);
  }
  remove_superfluous();
}

void SnapshotWriter::copy_unstaged(OutputFile& file) {
  for (std::uint64_t written = 0; written < plan_.unstaged_bytes();) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return !issued_.empty() || job_->given_up; });
    if (job_->given_up) {
      throw GivenUp();
    }
    auto const issued = issued_.front();
    issued_.pop_front();
    lock.unlock();
    write_chunk(file, issued);
    written += issued.bytes;
    lock.lock();
    free_.push_back(issued.chunk);
    lock.unlock();
    changed_.notify_all();
  }
}

void SnapshotWriter::copy_staged(OutputFile& file, std::source_location issued_at) {
  // By now the thread has all chunks: it is the only one that issues copies of staged data.
  std::deque<Issued> ahead;
  std::uint64_t begin = plan_.unstaged_bytes();
  std::size_t next = 0;
  while (begin < plan_.bytes() || !ahead.empty()) {
    while (begin < plan_.bytes() && ahead.size() < chunks_.size()) {
      auto const end = std::min<std::uint64_t>(begin + sizes_.chunk_bytes, plan_.bytes());
      ahead.push_back(issue(begin, end, next++ % chunks_.size(), issued_at));
      begin = end;
    }
    write_chunk(file, ahead.front());
    ahead.pop_front();
  }
}

void SnapshotWriter::write_chunk(OutputFile& file, Issued const& issued) {
  plan_.device()->context->tracker->synchronize(issued.copied);
  auto const& chunk = chunks_[issued.chunk];
  chunk.host_uses(AccessMode::read);
  file.write(chunk.data(), issued.bytes);
}

void SnapshotWriter::add_to_files(Job const& job) {
  auto const path = path_of(job.step);
  auto const sequence = files_.empty() ? 1 : files_.back().sequence + 1;
  std::erase_if(files_, [&](KeptFile const& file) { return file.path == path; });
  files_.push_back({path, job.step, sequence, job.metric, options_.higher_is_better});
}

void SnapshotWriter::remove_superfluous() {
  std::vector<std::filesystem::path> failed;
  for (auto const& file : superfluous_files(files_, options_)) {
    std::error_code error;
    std::filesystem::remove(file.path, error);
    if (!error) {
      std::erase_if(files_, [&](KeptFile const& other) { return other.path == file.path; });
      continue;
    }
    failed.push_back(file.path);
    if (std::ranges::find(not_removed_, file.path) == not_removed_.end()) {
      log_not_removed(file.path, error);
    }
  }
  std::lock_guard const guard(mutex_);
  not_removed_ = std::move(failed);
}

void SnapshotWriter::log_not_removed(std::filesystem::path const& path,
                                     std::error_code const& error) const {
  if (!options_.log) {
    return;
  }
  try {
    options_.log(fmt::format(
        "msstream: checkpoint::Writer: cannot remove the old checkpoint {}, which stays: {}",
        path.string(),
        error.message()));
  } catch (...) {  // NOLINT(bugprone-empty-catch): the checkpoint is complete all the same
  }
}

std::vector<std::filesystem::path> SnapshotWriter::not_removed() const {
  std::lock_guard const guard(mutex_);
  return not_removed_;
}

}  // namespace msstream::detail

namespace msstream::checkpoint {

Writer::Writer(Tensors const& tensors, WriterOptions const& options)
    : writer_(
          detail::make_at_home<detail::SnapshotWriter>(detail::HomeProcess(), tensors, options)) {}

Writer::~Writer() = default;

void Writer::save(Header header, std::source_location issued_at) {
  writer_->save(std::move(header), issued_at);
}

void Writer::wait() {
  writer_->wait();
}

bool Writer::is_writing() const {
  return writer_->is_writing();
}

std::vector<std::filesystem::path> Writer::not_removed() const {
  return writer_->not_removed();
}

std::filesystem::path Writer::path_of(std::int64_t step) const {
  return writer_->path_of(step);
}

std::size_t Writer::device_bytes() const noexcept {
  return writer_->device_bytes();
}

std::size_t Writer::pinned_bytes() const noexcept {
  return writer_->pinned_bytes();
}

}  // namespace msstream::checkpoint
