// SPDX-License-Identifier: Apache-2.0
#include "run_files.hpp"

#include "overlap/record/frame.hpp"
#include "overlap/record/trace_file.hpp"

#include <fmt/core.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <fstream>
#include <stdexcept>
#include <system_error>
#include <thread>
#include <utility>

namespace msstream::overlap {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view kGzipEnd = ".json.gz";
constexpr std::string_view kPlainEnd = ".json";

/// Divides a name into what is before ".json.gz" or ".json", or before the last point, and the
/// rest.
std::pair<std::string, std::string> stem_and_end(fs::path const& file) {
  std::string const name = file.filename().string();
  for (std::string_view const end : {kGzipEnd, kPlainEnd}) {
    if (name.size() > end.size() && name.ends_with(end)) {
      return {name.substr(0, name.size() - end.size()), std::string(end)};
    }
  }
  auto const point = name.rfind('.');
  return point == std::string::npos || point == 0
             ? std::pair(name, std::string())
             : std::pair(name.substr(0, point), name.substr(point));
}

fs::path free_name(fs::path const& folder, std::string const& stem, std::string const& end) {
  for (int number = 1;; ++number) {
    fs::path const path =
        folder / (number == 1 ? stem + end : fmt::format("{}-{}{}", stem, number, end));
    if (std::error_code error; !fs::exists(fs::symlink_status(path, error))) {
      return path;
    }
  }
}

std::vector<std::string> lines_of(fs::path const& file) {
  std::vector<std::string> lines;
  std::ifstream stream(file);
  for (std::string line; std::getline(stream, line);) {
    lines.push_back(line);
  }
  return lines;
}

std::vector<fs::path> files_in(fs::path const& folder, std::string_view end) {
  std::vector<fs::path> found;
  std::error_code error;
  for (auto const& entry : fs::directory_iterator(folder, error)) {
    if (entry.path().filename().string().ends_with(end)) {
      found.push_back(entry.path());
    }
  }
  std::sort(found.begin(), found.end());
  return found;
}

/// Moves a file; does not replace another one unless `force`.
bool move_file(fs::path const& from, fs::path const& to, bool force) {
  if (!force) {
    if (::link(from.c_str(), to.c_str()) == 0) {
      ::unlink(from.c_str());
      return true;
    }
    if (errno == EEXIST) {
      return false;
    }
    if (std::error_code error; fs::exists(fs::symlink_status(to, error))) {
      return false;
    }
  }
  std::error_code error;
  fs::rename(from, to, error);
  return !error;
}

enum class Waited { again, enough };

/// Waits for the end of the process that writes `part`, whose name begins with the process's
/// number. Returns Waited::again if it may still live, before `deadline`.
Waited wait_for_process(fs::path const& part, std::chrono::steady_clock::time_point deadline) {
  using std::chrono::milliseconds;
  auto const left =
      std::chrono::duration_cast<milliseconds>(deadline - std::chrono::steady_clock::now());
  if (left <= milliseconds(0)) {
    return Waited::enough;
  }
  std::string const name = part.filename().string();
  pid_t process = 0;
  std::from_chars(name.data(), name.data() + name.size(), process);
  int const descriptor = static_cast<int>(::syscall(SYS_pidfd_open, process, 0));
  if (descriptor < 0) {
    // The process ended just now, or the kernel has no such descriptors (before Linux 5.3).
    std::this_thread::sleep_for(std::min(left, milliseconds(20)));
    return Waited::again;
  }
  pollfd waiting{descriptor, POLLIN, 0};
  ::poll(&waiting, 1, static_cast<int>(left.count()));
  ::close(descriptor);
  return Waited::enough;
}

}  // namespace

RunFiles::RunFiles(fs::path const& output, std::string const& program, bool force)
    : force_(force), chosen_(!output.empty()) {
  fs::path const parent = output.has_parent_path() ? output.parent_path() : fs::current_path();
  if (chosen_) {
    output_ = fs::absolute(output);
    if (fs::is_directory(output_)) {
      throw std::runtime_error(fmt::format("{} is a folder: name a file", output.string()));
    }
    if (fs::exists(fs::symlink_status(output_)) && !force) {
      throw std::runtime_error(fmt::format(
          "{} exists already: choose another name, or --force to replace it", output.string()));
    }
  } else {
    std::string const name = fs::path(program).filename().string();
    output_ = free_name(fs::absolute(parent), name + ".overlap", std::string(kGzipEnd));
  }
  plain_ = stem_and_end(output_).second == kPlainEnd;
  std::string pattern = output_.string() + ".XXXXXX";
  if (::mkdtemp(pattern.data()) == nullptr) {
    throw std::runtime_error(fmt::format("cannot write to {}: {}",
                                         output_.parent_path().string(),
                                         std::generic_category().message(errno)));
  }
  folder_ = pattern;
}

fs::path RunFiles::name_for(std::string const& process, bool alone) const {
  if (alone) {
    return output_;
  }
  auto const [stem, end] = stem_and_end(output_);
  return output_.parent_path() / fmt::format("{}.{}{}", stem, process, end);
}

RunFiles::Outcome RunFiles::collect(std::string const& reason_of_cut) {
  Outcome outcome;
  std::string const foot = record::text_of_cut_foot(reason_of_cut);
  bool some_still_run = false;
  auto const deadline = std::chrono::steady_clock::now() + std::chrono::seconds(1);
  for (fs::path const& part : files_in(folder_, ".part")) {
    record::CutFile cut = record::complete_cut_file(part.string(), foot);
    // A child that was ended together with the program may need a moment to finish its file.
    for (auto waited = Waited::again; cut.still_written && waited == Waited::again;) {
      waited = wait_for_process(part, deadline);
      cut = fs::exists(part) ? record::complete_cut_file(part.string(), foot) : record::CutFile();
    }
    std::string const process = part.stem().string();
    outcome.cuda_was_initialised = true;
    if (cut.still_written) {
      some_still_run = true;
      outcome.messages.push_back(
          fmt::format("process {} still runs, and records to {}", process, part.string()));
    } else if (!cut.error.empty()) {
      outcome.messages.push_back(fmt::format("process {}: {}", process, cut.error));
    } else if (!cut.path.empty()) {
      outcome.messages.push_back(fmt::format(
          "process {} was killed: its recording lacks up to the last second, or if it used "
          "several GPUs, what was in buffers that were not full",
          process));
    }
  }
  for (fs::path const& file : files_in(folder_, ".error")) {
    outcome.cuda_was_initialised = true;
    for (std::string const& line : lines_of(file)) {
      outcome.messages.push_back(fmt::format("process {}: {}", file.stem().string(), line));
    }
    fs::remove(file);
  }
  auto const recordings = files_in(folder_, plain_ ? kPlainEnd : kGzipEnd);
  bool const alone = recordings.size() == 1 && !some_still_run;
  for (fs::path const& recording : recordings) {
    outcome.cuda_was_initialised = true;
    std::string const process = stem_and_end(recording).first;
    fs::path target = name_for(process, alone);
    while (!move_file(recording, target, force_)) {
      auto const [stem, end] = stem_and_end(target);
      fs::path const other = free_name(target.parent_path(), stem, end);
      if (other == target) {
        outcome.messages.push_back(fmt::format(
            "cannot write {}; the recording is {}", target.string(), recording.string()));
        target = recording;
        break;
      }
      target = other;
    }
    std::string facts;
    for (std::string const& line : lines_of(folder_ / (process + ".note"))) {
      facts += (facts.empty() ? "" : "; ") + line;
    }
    outcome.messages.push_back(facts.empty() ? fmt::format("wrote {}", target.string())
                                             : fmt::format("wrote {}: {}", target.string(), facts));
    outcome.files.push_back(target);
  }
  if (!some_still_run) {
    for (fs::path const& note : files_in(folder_, ".note")) {
      fs::remove(note);
    }
    std::error_code error;
    fs::remove(folder_, error);  // stays if it has files that could not be moved
  }
  return outcome;
}

}  // namespace msstream::overlap
