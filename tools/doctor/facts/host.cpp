// SPDX-License-Identifier: Apache-2.0
#include "doctor/facts/host.hpp"

#include "doctor/facts/compiled_for.hpp"
#include "doctor/facts/system_files.hpp"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <string_view>
#include <system_error>

namespace msstream::doctor {
namespace fs = std::filesystem;

namespace {

/// Returns the processors of a list such as `0-3,8,10-11`.
std::set<int> processors_of_list(std::string_view list) {
  std::set<int> out;
  while (!list.empty()) {
    auto const comma = list.find(',');
    auto const part = list.substr(0, comma);
    list.remove_prefix(comma == std::string_view::npos ? list.size() : comma + 1);
    int first = 0;
    auto read = std::from_chars(part.data(), part.data() + part.size(), first);
    if (read.ec != std::errc{}) {
      continue;
    }
    int last = first;
    if (read.ptr != part.data() + part.size() && *read.ptr == '-') {
      std::from_chars(read.ptr + 1, part.data() + part.size(), last);
    }
    for (int i = first; i <= last && i - first < 65'536; ++i) {
      out.insert(i);
    }
  }
  return out;
}

std::set<int> allowed_processors(fs::path const& root) {
  return processors_of_list(
      value_after(text_of_file(root / "proc/self/status"), "Cpus_allowed_list"));
}

/// Returns the least time that the control groups of the process allow, in processors.
std::optional<double> quota_of(fs::path const& root) {
  std::optional<double> least;
  auto const add = [&](double quota) { least = least ? std::min(*least, quota) : quota; };
  for (auto const& group : control_groups(root, "cpu")) {
    auto const version_2 = words_of(text_of_file(group / "cpu.max"));
    if (version_2.size() == 2 && version_2[0] != "max") {
      double quota = 0;
      double period = 0;
      std::from_chars(version_2[0].data(), version_2[0].data() + version_2[0].size(), quota);
      std::from_chars(version_2[1].data(), version_2[1].data() + version_2[1].size(), period);
      if (quota > 0 && period > 0) {
        add(quota / period);
      }
    }
    auto const quota = number_of_file(group / "cpu.cfs_quota_us");  // nothing if it is -1
    auto const period = number_of_file(group / "cpu.cfs_period_us");
    if (quota && period && *period > 0) {
      add(static_cast<double>(*quota) / static_cast<double>(*period));
    }
  }
  return least;
}

Line processors_line(HostFacts const& facts) {
  Line line{Section::host, "processors", "processors"};
  line = with_quantity(std::move(line), {usable_processors(facts), "usable"});
  line.value = fmt::format("{} of {}{}",
                           text_of({usable_processors(facts), ""}),
                           facts.online,
                           facts.model.empty() ? "" : ", " + facts.model);
  if (usable_processors(facts) < 2) {
    return judged(std::move(line),
                  Level::slow,
                  "One processor issues work, runs launch threads and computes, in turn. Give the "
                  "process at least two (taskset, --cpus of the container, cgroup cpu.max).");
  }
  if (facts.quota && *facts.quota < facts.allowed) {
    return judged(std::move(line),
                  Level::note,
                  fmt::format("A control group allows the time of {} processors, but the program "
                              "sees {}. Set MSSTREAM_HOST_KERNEL_THREADS={}, or raise the limit.",
                              text_of({*facts.quota, ""}),
                              facts.allowed,
                              std::max(1, static_cast<int>(*facts.quota))));
  }
  if (facts.allowed < facts.online) {
    return judged(std::move(line),
                  Level::note,
                  "The process is bound to some of the processors. If that is not intended, look "
                  "at taskset, cpusets and the launcher's binding (such as mpirun --bind-to).");
  }
  return line;
}

Line instruction_line(HostFacts const& facts) {
  Line line{Section::host, "instruction-set", "instruction sets of the kernels"};
  std::string missing;
  for (auto const& set : facts.compiled_for) {
    line.value += (line.value.empty() ? "" : " ") + set;
    if (!facts.features.empty() && !facts.features.contains(set)) {
      missing += (missing.empty() ? "" : ", ") + set;
    }
  }
  if (line.value.empty()) {
    line.value = "those of every processor of this family";
  }
  if (!missing.empty()) {
    return judged(std::move(line),
                  Level::bad,
                  fmt::format("This processor lacks {}: kernels for the host end with an illegal "
                              "instruction. Build on this computer, or with "
                              "-DMSSTREAM_NATIVE_ARCH=OFF.",
                              missing));
  }
  bool const could_do_more = std::ranges::any_of(
      std::initializer_list<char const*>{"avx2", "avx512f"}, [&](char const* set) {
        return facts.features.contains(set) &&
               std::ranges::find(facts.compiled_for, set) == facts.compiled_for.end();
      });
  if (could_do_more && !facts.is_native) {
    return judged(std::move(line),
                  Level::note,
                  "The processor has wider instructions. Kernels for the host are faster if the "
                  "library is built on this computer with -DMSSTREAM_NATIVE_ARCH=ON.");
  }
  return line;
}

Line numa_line(HostFacts const& facts) {
  Line line{Section::host, "numa", "NUMA nodes"};
  line = with_quantity(std::move(line), {static_cast<double>(facts.numa_nodes), "nodes"});
  line.value = fmt::format("{}, the process may use {}", facts.numa_nodes, facts.allowed_nodes);
  if (facts.allowed_nodes > 1) {
    return judged(std::move(line),
                  Level::note,
                  "Copies and launches cost more from a node that is far from the GPU. Bind each "
                  "process to the node of its GPU (numactl --cpunodebind --membind; nvidia-smi "
                  "topo -m lists the nodes).");
  }
  return line;
}

Line governor_line(HostFacts const& facts) {
  Line line{Section::host, "frequency", "choice of the frequency"};
  line.value = facts.governor.empty() ? "not shown by the system" : facts.governor;
  if (facts.governor == "powersave" || facts.governor == "conservative") {
    return judged(std::move(line),
                  Level::note,
                  "Threads that wake up for short work may run slowly at first. Compare with "
                  "cpupower frequency-set -g performance.");
  }
  return line;
}

}  // namespace

double usable_processors(HostFacts const& facts) noexcept {
  double const allowed = std::max(1, facts.allowed);
  return facts.quota ? std::min(allowed, std::max(*facts.quota, 0.01)) : allowed;
}

HostFacts read_host(fs::path const& root) {
  HostFacts facts;
  auto const cpuinfo = text_of_file(root / "proc/cpuinfo");
  facts.model = value_after(cpuinfo, "model name");
  for (auto& flag : words_of(value_after(cpuinfo, "flags"))) {
    facts.features.insert(std::move(flag));
  }
  auto const online = processors_of_list(text_of_file(root / "sys/devices/system/cpu/online"));
  auto const allowed = allowed_processors(root);
  facts.online = online.empty() ? static_cast<int>(std::max(1L, ::sysconf(_SC_NPROCESSORS_ONLN)))
                                : static_cast<int>(online.size());
  facts.allowed = allowed.empty() ? facts.online : static_cast<int>(allowed.size());
  facts.quota = quota_of(root);
  std::error_code ignored;
  int nodes = 0;
  int allowed_nodes = 0;
  for (fs::directory_iterator it(root / "sys/devices/system/node", ignored), end; it != end;
       it.increment(ignored)) {
    auto const name = it->path().filename().string();
    if (!name.starts_with("node") || name.find_first_not_of("0123456789", 4) == 4) {
      continue;
    }
    auto const of_node = processors_of_list(text_of_file(it->path() / "cpulist"));
    ++nodes;
    allowed_nodes += allowed.empty() || std::ranges::any_of(of_node, [&](int processor) {
                       return allowed.contains(processor);
                     });
  }
  facts.numa_nodes = std::max(1, nodes);
  facts.allowed_nodes = std::max(1, allowed_nodes);
  auto const governor =
      words_of(text_of_file(root / "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"));
  facts.governor = governor.empty() ? "" : governor.front();
  for (auto const* set = compiled_instruction_sets(); *set != nullptr; ++set) {
    facts.compiled_for.emplace_back(*set);
  }
  facts.is_native = is_compiled_for_native();
  return facts;
}

Lines host_lines(HostFacts const& facts) {
  return {processors_line(facts), instruction_line(facts), numa_line(facts), governor_line(facts)};
}

}  // namespace msstream::doctor
