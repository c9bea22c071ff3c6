// SPDX-License-Identifier: Apache-2.0
#include "doctor/facts/libraries.hpp"

#include "doctor/facts/shared_library.hpp"
#include "doctor/facts/system_files.hpp"
#include "overlap/record/cupti_files.hpp"
#include "trace/counter.hpp"

#include <fmt/core.h>

#include <array>
#include <charconv>
#include <cstdint>
#include <utility>
#include <vector>

namespace msstream::doctor {
namespace fs = std::filesystem;
namespace {

Line line_of(std::string id, std::string thing) {
  return {Section::libraries, std::move(id), std::move(thing)};
}

Line needed_line(std::vector<NeededLibrary> const& needed) {
  auto line = line_of("cuda-libraries", "libraries of CUDA");
  std::string found;
  std::string problems;
  for (auto const& [name, problem] : needed) {
    auto& text = problem.empty() ? found : problems;
    text += (text.empty()      ? ""
             : problem.empty() ? ", "
                               : "; ") +
            (problem.empty() ? name : problem);
  }
  if (problems.empty()) {
    line.value = found + " can be loaded";
    return line;
  }
  line.value = "cannot be loaded: " + problems;
  return judged(std::move(line),
                Level::bad,
                "Programs of this build do not start without them; this one does. Install them "
                "(the toolkit has them), and add their folder, such as /usr/local/cuda/lib64, to "
                "LD_LIBRARY_PATH.");
}

Line nvtx_line(LibraryFacts const& facts) {
  auto line = line_of("nvtx", "NVTX ranges");
  auto const& [library, problem] = facts.nvtx_tool;
  if (!facts.is_cuda_build) {
    line.value = "none: a build for the host writes no ranges";
    return library.empty() ? line
                           : judged(std::move(line),
                                    Level::note,
                                    "NVTX_INJECTION64_PATH has no effect on programs of this "
                                    "build. A build for CUDA writes a range for each operation.");
  }
  if (library.empty()) {
    line.value = "no tool attached";
    return line;
  }
  if (!problem.empty()) {
    line.value = "no tool gets them: " + problem;
    return judged(std::move(line), Level::note, "Correct NVTX_INJECTION64_PATH, or unset it.");
  }
  line.value = "sent to " + library;
  return judged(std::move(line),
                Level::note,
                "A tool is attached: each operation writes a range, and launches take longer.");
}

Line nvtx_counters_line(LibraryFacts const& facts) {
  auto line = line_of("nvtx-counters", "NVTX counters");
  line.value = facts.nvtx_counters ? "built in" : "not built in";
  return facts.nvtx_counters
             ? line
             : judged(std::move(line),
                      Level::note,
                      "Profilers get no curves of memory, waits and queued launches. Configure "
                      "with -DMSSTREAM_NVTX and the folder of the headers of PyPI's wheel "
                      "nvidia-nvtx, or build with CUDA 13.");
}

/// Returns a line about the tool that the CUDA driver loads, such as a profiler.
Line cuda_tool_line(LibraryFacts const& facts) {
  auto line = line_of("cuda-tool", "tool for calls of CUDA");
  auto const& [library, problem] = facts.cuda_tool;
  if (!facts.is_cuda_build) {
    line.value = "none: a build for the host calls no CUDA";
    return judged(std::move(line),
                  Level::note,
                  "CUDA_INJECTION64_PATH has no effect on programs of this build.");
  }
  if (!problem.empty()) {
    line.value = "none: " + problem;
    return judged(std::move(line), Level::note, "Correct CUDA_INJECTION64_PATH, or unset it.");
  }
  line.value = library;
  return judged(std::move(line),
                Level::note,
                "The driver loads this tool into each program, and launches may take longer.");
}

Line cupti_line(LibraryFacts const& facts) {
  auto line = line_of("cupti", "CUPTI");
  if (!facts.has_cupti) {
    line.value =
        "cannot be loaded" + (facts.cupti_problem.empty() ? "" : ": " + facts.cupti_problem);
    // Without a driver there is nothing to record.
    return judged(std::move(line),
                  facts.is_cuda_build ? Level::note : Level::ok,
                  facts.is_cuda_build
                      ? "msstream-overlap run and checks of third-party calls need it. Add the "
                        "folder of libcupti.so (extras/CUPTI/lib64 of the toolkit) to "
                        "LD_LIBRARY_PATH."
                      : "");
  }
  if (!facts.cupti_subscribe) {
    line.value = facts.has_driver ? "can be loaded" : "can be loaded; not tried without a driver";
    return line;
  }
  if (*facts.cupti_subscribe == kCuptiSuccess) {
    line.value = "can be loaded, and is free";
    return line;
  }
  if (*facts.cupti_subscribe == kCuptiManySubscribers) {
    line.value = "held by another profiler";
    return judged(std::move(line),
                  Level::note,
                  "Only one tool can use it in a process. End Nsight, torch.profiler or the other "
                  "recorder before msstream-overlap run.");
  }
  line.value = fmt::format("does not work (error {})", *facts.cupti_subscribe);
  return judged(std::move(line),
                Level::note,
                "Programs run, but msstream-overlap run cannot record them. Use the CUPTI of a "
                "toolkit that is not newer than the driver.");
}

Line counters_line(LibraryFacts const& facts) {
  auto line = line_of("counters", "performance counters");
  if (!facts.counters_restricted) {
    line.value = "unknown without a driver";
    return line;
  }
  if (*facts.counters_restricted && !facts.may_administrate) {
    line.value = "for administrators only";
    return judged(std::move(line),
                  Level::note,
                  "Nsight Compute needs them, msstream-overlap does not. An administrator opens "
                  "them by the driver's option NVreg_RestrictProfilingToAdminUsers=0.");
  }
  line.value = "may be read";
  return line;
}

Line loading_line(LibraryFacts const& facts) {
  auto line = line_of("module-loading", "loading of kernels (CUDA_MODULE_LOADING)");
  bool const is_eager = facts.module_loading == "EAGER";
  line.value = is_eager ? "EAGER: all at the start" : "lazy: each at its first launch";
  if (!facts.is_cuda_build) {
    return line;
  }
  if (!facts.module_loading.empty() && !is_eager && facts.module_loading != "LAZY" &&
      facts.module_loading != "DEFAULT") {
    line.value = facts.module_loading;
    return judged(std::move(line), Level::note, "Expected EAGER, LAZY or DEFAULT.");
  }
  if (!is_eager) {
    return judged(std::move(line),
                  Level::ok,
                  "The first launch of a kernel may wait for running work. If the first steps "
                  "matter, run each kernel once before, or set CUDA_MODULE_LOADING=EAGER.");
  }
  return line;
}

std::string nccl_text(int version) {
  return fmt::format("{}.{}.{}", version / 10'000, version / 100 % 100, version % 100);
}

Line nccl_line(LibraryFacts const& facts) {
  auto line = line_of("nccl", "NCCL");
  if (facts.nccl_built_in) {
    line.value = facts.nccl_version ? "built in, " + nccl_text(*facts.nccl_version) : "built in";
    if (!facts.nccl_version) {
      return judged(std::move(line),
                    Level::bad,
                    "libnccl.so.2 does not say its version: collectives between GPUs fail. Put "
                    "the folder of the build's NCCL into LD_LIBRARY_PATH.");
    }
    return line;
  }
  line.value =
      facts.nccl_version ? "not built in; found " + nccl_text(*facts.nccl_version) : "not built in";
  if (!facts.is_cuda_build) {
    return line;
  }
  return judged(std::move(line),
                Level::note,
                "Collectives between GPUs need it: configure with -DMSSTREAM_NCCL=auto, or a "
                "folder with include/nccl.h and lib/libnccl.so.2.");
}

Line mpi_line(LibraryFacts const& facts) {
  auto line = line_of("mpi", "MPI");
  if (!facts.mpi_built_in) {
    line.value = "not built in";
    line.advice =
        "torchrun and srun need none. Processes of mpirun need MASTER_ADDR, or a build with "
        "-DMSSTREAM_MPI.";
    return line;
  }
  if (facts.mpi_version.empty()) {
    line.value = "built in";
    return judged(std::move(line),
                  Level::bad,
                  "The MPI of the build cannot be loaded: programs that link msstream::mpi do not "
                  "start. Install it, or add its folder to LD_LIBRARY_PATH.");
  }
  line.value = "built in, " + facts.mpi_version;
  return line;
}

/// Subscribes to CUPTI's callbacks and ends that again. The functions are declared here, so that a
/// build without CUPTI's headers has them.
std::optional<int> try_cupti(SharedLibrary const& library) {
  using Callback = void (*)(void*, int, std::uint32_t, void const*);
  auto* const subscribe =
      library.function<int(void** subscriber, Callback, void*)>("cuptiSubscribe");
  auto* const unsubscribe = library.function<int(void* subscriber)>("cuptiUnsubscribe");
  if (subscribe == nullptr || unsubscribe == nullptr) {
    return std::nullopt;
  }
  void* subscriber = nullptr;
  int const code = subscribe(
      &subscriber, [](void*, int, std::uint32_t, void const*) {}, nullptr);
  if (code == kCuptiSuccess) {
    unsubscribe(subscriber);
  }
  return code;
}

/// Loads a tool as a program would: by a path, or by a name that the loader finds. The function is
/// the one that the tool is started by. It is not called.
InjectedTool read_tool(std::string library, char const* function) {
  InjectedTool tool{std::move(library), {}};
  if (!tool.library.empty()) {
    SharedLibrary const loaded(tool.library);
    tool.problem = loaded.problem();
    if (loaded && loaded.address(function) == nullptr) {
      tool.problem = fmt::format("{} has no function {}", tool.library, function);
    }
  }
  return tool;
}

/// Returns the files of CUPTI that the recorder of msstream-overlap tries. A chosen file is the
/// only one.
std::vector<std::string> cupti_candidates(std::string const& chosen, int major_of_driver) {
  return chosen.empty() ? overlap::record::cupti_files(major_of_driver)
                        : std::vector<std::string>{chosen};
}

std::optional<int> read_nccl_version() {
  SharedLibrary const library("libnccl.so.2");
  auto* const get_version = library.function<int(int*)>("ncclGetVersion");
  int version = 0;
  return get_version != nullptr && get_version(&version) == 0 ? std::optional(version)
                                                              : std::nullopt;
}

/// Returns the first line of what MPI says of itself. MPI allows the call before its start.
std::string read_mpi_version() {
  SharedLibrary const library(MSSTREAM_MPI_LIBRARY);
  auto* const get_version = library.function<int(char*, int*)>("MPI_Get_library_version");
  std::array<char, 8192> text{};  // MPICH's maximum; that of Open MPI is 256
  int length = 0;
  if (get_version == nullptr || get_version(text.data(), &length) != 0) {
    return {};
  }
  std::string const all = text.data();
  return all.substr(0, all.find_first_of("\n,"));
}

bool has_sys_admin(fs::path const& root) {
  auto const mask = value_after(text_of_file(root / "proc/self/status"), "CapEff");
  std::uint64_t bits = 0;
  std::from_chars(mask.data(), mask.data() + mask.size(), bits, 16);
  constexpr unsigned kSysAdmin = 21;  // CAP_SYS_ADMIN
  return (bits >> kSysAdmin & 1U) != 0;
}

}  // namespace

LibraryFacts read_libraries(Variables const& variables,
                            int driver_supports,
                            int toolkit,
                            fs::path const& root) {
  auto const value_of = [&](std::string_view name) {
    auto const found = variables.find(name);
    return found == variables.end() ? std::string() : found->second;
  };
  LibraryFacts facts;
  facts.is_cuda_build = MSSTREAM_CUDA != 0;
  facts.has_driver = driver_supports > 0;
  if (toolkit > 0) {
    for (auto const* const name : {"libcudart", "libcublasLt"}) {
      auto const file = fmt::format("{}.so.{}", name, toolkit / 1000);
      facts.needed.push_back({file, SharedLibrary(file).problem()});
    }
  }
  // A build for the host loads no tools, and neither does its doctor.
  auto const tool_of = [&](char const* variable, char const* function) {
    auto library = value_of(variable);
    return facts.is_cuda_build ? read_tool(std::move(library), function)
                               : InjectedTool{std::move(library), {}};
  };
  facts.nvtx_tool = tool_of("NVTX_INJECTION64_PATH", "InitializeInjectionNvtx2");
  facts.cuda_tool = tool_of("CUDA_INJECTION64_PATH", "InitializeInjection");
  facts.nvtx_counters = msstream::detail::has_nvtx_counters();
  facts.module_loading = value_of("CUDA_MODULE_LOADING");

  SharedLibrary const cupti(
      cupti_candidates(value_of("MSSTREAM_OVERLAP_CUPTI"), driver_supports / 1000));
  facts.has_cupti = static_cast<bool>(cupti);
  facts.cupti_problem = cupti.problem();
  if (facts.has_cupti && facts.has_driver) {
    facts.cupti_subscribe = try_cupti(cupti);
  }
  auto const restricted =
      value_after(text_of_file(root / "proc/driver/nvidia/params"), "RmProfilingAdminOnly");
  if (!restricted.empty()) {
    facts.counters_restricted = restricted != "0";
  }
  facts.may_administrate = has_sys_admin(root);

  facts.nccl_built_in = MSSTREAM_WITH_NCCL != 0;
  facts.nccl_version = read_nccl_version();
  facts.mpi_built_in = *MSSTREAM_MPI_LIBRARY != '\0';
  facts.mpi_version = facts.mpi_built_in ? read_mpi_version() : "";
  return facts;
}

Lines library_lines(LibraryFacts const& facts) {
  Lines lines;
  if (!facts.needed.empty()) {
    lines.push_back(needed_line(facts.needed));
  }
  lines.push_back(nvtx_line(facts));
  if (facts.is_cuda_build) {
    lines.push_back(nvtx_counters_line(facts));
  }
  if (!facts.cuda_tool.library.empty()) {
    lines.push_back(cuda_tool_line(facts));
  }
  for (auto* const line : {cupti_line, counters_line, loading_line, nccl_line, mpi_line}) {
    lines.push_back(line(facts));
  }
  return lines;
}

}  // namespace msstream::doctor
