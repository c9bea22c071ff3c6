// SPDX-License-Identifier: Apache-2.0
#include "doctor/facts/limits.hpp"

#include "doctor/facts/system_files.hpp"

#include <fmt/core.h>
#include <sys/resource.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <charconv>
#include <string_view>
#include <utility>

namespace msstream::doctor {
namespace fs = std::filesystem;
namespace {

constexpr double kGiB = 1024.0 * 1024 * 1024;

double number(std::uint64_t bytes) {
  return static_cast<double>(bytes);
}

/// Returns a line whose value is a limit in bytes.
Line bytes_line(std::string id, std::string thing, std::optional<std::uint64_t> bytes) {
  Line line{Section::limits, std::move(id), std::move(thing)};
  line.value = bytes ? bytes_text(number(*bytes)) : "unlimited";
  if (bytes) {
    line.quantity = {number(*bytes), "bytes"};
  }
  return line;
}

Line count_line(std::string id, std::string thing, std::optional<std::uint64_t> count) {
  Line line{Section::limits, std::move(id), std::move(thing)};
  if (!count) {
    line.value = "unlimited";
    return line;
  }
  return with_quantity(std::move(line), {number(*count), ""});
}

Line memory_line(LimitFacts const& facts) {
  auto line = bytes_line("memory", "memory of the host", facts.memory_bytes);
  line.value += fmt::format(", {} available", bytes_text(number(facts.available_bytes)));
  if (number(facts.available_bytes) < kGiB) {
    return judged(std::move(line),
                  Level::note,
                  "Pinned memory is never swapped out, so that large batches and host tables "
                  "may fail with OutOfMemory. End other programs, or use smaller batches.");
  }
  return line;
}

Line group_memory_line(LimitFacts const& facts) {
  auto line =
      bytes_line("cgroup-memory", "memory that the control group allows", facts.group_memory_bytes);
  if (!facts.group_memory_bytes) {
    return line;
  }
  auto const left = number(*facts.group_memory_bytes) - number(facts.group_used_bytes);
  line.value += fmt::format(", {} used", bytes_text(number(facts.group_used_bytes)));
  if (left < kGiB) {
    return judged(std::move(line),
                  Level::note,
                  "Beyond the limit the kernel ends a process without a message of its own. Raise "
                  "it (docker --memory, the job's memory, cgroup memory.max).");
  }
  return line;
}

Line locked_line(LimitFacts const& facts) {
  auto line = bytes_line("locked-memory", "locked memory (ulimit -l)", facts.locked_bytes);
  if (facts.locked_bytes && number(*facts.locked_bytes) < kGiB) {
    return judged(std::move(line),
                  Level::note,
                  "CUDA's pinned memory does not count. NCCL over InfiniBand or RoCE locks its "
                  "buffers, and fails or falls back to TCP: set ulimit -l unlimited there.");
  }
  return line;
}

Line address_line(LimitFacts const& facts) {
  auto line = bytes_line("address-space", "address space (ulimit -v)", facts.address_bytes);
  if (facts.address_bytes) {
    return judged(std::move(line),
                  facts.is_cuda_build ? Level::bad : Level::note,
                  "CUDA reserves more addresses than there is memory, and fails to start under "
                  "such a limit. Set ulimit -v unlimited; limit memory by a control group.");
  }
  return line;
}

Line files_line(LimitFacts const& facts) {
  auto line = count_line("open-files", "open files (ulimit -n)", facts.open_files);
  if (!facts.open_files || *facts.open_files >= 1024) {
    return line;
  }
  constexpr std::uint64_t kWanted = 65'536;
  auto const settable = std::min(facts.most_open_files.value_or(kWanted), kWanted);
  std::string advice = "Each rank opens sockets to the others, and each reader its files. ";
  advice += settable > *facts.open_files
                ? fmt::format("Set ulimit -n {}.", settable)
                : fmt::format(
                      "The hard limit (ulimit -Hn) is no greater, so that an administrator "
                      "must raise it to {}: nofile in /etc/security/limits.conf, "
                      "LimitNOFILE of systemd, docker --ulimit nofile={}.",
                      kWanted,
                      kWanted);
  return judged(std::move(line), Level::note, std::move(advice));
}

Line threads_line(LimitFacts const& facts) {
  auto line = count_line("threads", "processes and threads (ulimit -u, pids.max)", facts.threads);
  if (facts.threads && *facts.threads < 512) {
    return judged(std::move(line),
                  Level::note,
                  "Launch threads, readers and CUDA's own threads count. A program that cannot "
                  "start one fails: raise ulimit -u, or pids.max of the control group.");
  }
  return line;
}

Line shared_line(LimitFacts const& facts) {
  auto line = bytes_line("shared-memory", "shared memory (/dev/shm)", facts.shared_bytes);
  if (facts.shared_bytes == 0) {
    line.value = "none";
  }
  if (number(facts.shared_bytes) < 1.0e9) {
    return judged(std::move(line),
                  Level::note,
                  "NCCL exchanges data of ranks of one host through it, and fails when it is full. "
                  "Containers have 64 MiB: start them with --shm-size=1g or --ipc=host.");
  }
  return line;
}

Line huge_pages_line(LimitFacts const& facts) {
  Line line{Section::limits, "huge-pages", "huge pages"};
  line.value =
      fmt::format("transparent: {}, reserved: {}",
                  facts.transparent_huge_pages.empty() ? "unknown" : facts.transparent_huge_pages,
                  facts.huge_pages);
  line.quantity = {static_cast<double>(facts.huge_pages), "pages"};
  if (facts.transparent_huge_pages == "never") {
    return judged(std::move(line),
                  Level::note,
                  "Large tables in the memory of the host are read faster with them: write madvise "
                  "to /sys/kernel/mm/transparent_hugepage/enabled.");
  }
  return line;
}

std::optional<std::uint64_t> limit_of(int resource, bool hard = false) {
  rlimit limit{};
  if (::getrlimit(static_cast<__rlimit_resource_t>(resource), &limit) != 0) {
    return std::nullopt;
  }
  auto const value = hard ? limit.rlim_max : limit.rlim_cur;
  return value == RLIM_INFINITY ? std::nullopt : std::optional<std::uint64_t>(value);
}

std::uint64_t kib_after(std::string const& text, std::string_view key) {
  auto const value = value_after(text, key);
  std::uint64_t kib = 0;
  std::from_chars(value.data(), value.data() + value.size(), kib);
  return kib;
}

void keep_least(std::optional<std::uint64_t>& least, std::optional<std::uint64_t> other) {
  if (other && (!least || *other < *least)) {
    least = other;
  }
}

}  // namespace

LimitFacts read_limits(fs::path const& root) {
  LimitFacts facts;
  facts.is_cuda_build = MSSTREAM_CUDA != 0;
  auto const memory = text_of_file(root / "proc/meminfo");
  facts.memory_bytes = kib_after(memory, "MemTotal") * 1024;
  facts.available_bytes = kib_after(memory, "MemAvailable") * 1024;
  facts.huge_pages = kib_after(memory, "HugePages_Total");
  for (auto const& group : control_groups(root, "memory")) {
    for (auto const& [limit, used] :
         {std::pair{"memory.max", "memory.current"},
          std::pair{"memory.limit_in_bytes", "memory.usage_in_bytes"}}) {
      auto const bytes = number_of_file(group / limit);
      // Version 1 writes a number beyond all memory for no limit.
      if (bytes && *bytes < facts.memory_bytes &&
          (!facts.group_memory_bytes || *bytes < *facts.group_memory_bytes)) {
        facts.group_memory_bytes = bytes;
        facts.group_used_bytes = number_of_file(group / used).value_or(0);
      }
    }
  }
  facts.locked_bytes = limit_of(RLIMIT_MEMLOCK);
  facts.address_bytes = limit_of(RLIMIT_AS);
  facts.open_files = limit_of(RLIMIT_NOFILE);
  facts.most_open_files = limit_of(RLIMIT_NOFILE, true);
  facts.threads = limit_of(RLIMIT_NPROC);
  for (auto const& group : control_groups(root, "pids")) {
    keep_least(facts.threads, number_of_file(group / "pids.max"));
  }
  struct statvfs shared {};
  if (::statvfs((root / "dev/shm").c_str(), &shared) == 0) {
    facts.shared_bytes = std::uint64_t{shared.f_blocks} * shared.f_frsize;
  }
  // The choice in brackets is in force, as in `always [madvise] never`.
  auto const choices = text_of_file(root / "sys/kernel/mm/transparent_hugepage/enabled");
  auto const begin = choices.find('[');
  auto const end = choices.find(']');
  if (begin != std::string::npos && end != std::string::npos && end > begin) {
    facts.transparent_huge_pages = choices.substr(begin + 1, end - begin - 1);
  }
  return facts;
}

Lines limit_lines(LimitFacts const& facts) {
  return {memory_line(facts),
          group_memory_line(facts),
          locked_line(facts),
          address_line(facts),
          files_line(facts),
          threads_line(facts),
          shared_line(facts),
          huge_pages_line(facts)};
}

}  // namespace msstream::doctor
