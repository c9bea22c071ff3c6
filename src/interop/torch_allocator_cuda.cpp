// SPDX-License-Identifier: Apache-2.0
// libmsstream_torch.so: the functions that torch.cuda.memory.CUDAPluggableAllocator and its setters
// take. interop/pytorch/msstream_torch.py passes them to PyTorch.
//
// The library links the CUDA runtime statically, with hidden symbols. Contexts, streams and events
// belong to the driver, so they are shared with PyTorch's copy of the CUDA runtime; only the last
// error is separate. One file therefore serves a PyTorch of any CUDA version that the driver can
// run.
#include "memory/device/device_state.hpp"
#include "torch_out_of_memory.hpp"

#include <msstream/base/detail/require.hpp>
#include <msstream/memory/raw_allocator.hpp>

#include <cuda_runtime_api.h>

#include <fmt/core.h>
#include <sys/types.h>

#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>

#define MSSTREAM_TORCH_API extern "C" __attribute__((visibility("default")))

namespace {

using msstream::Cuda;
using Memory = msstream::RawAllocator<Cuda>;

/// The allocators of all GPUs. Each allocator is made on first use, with the options of the
/// environment variables, and never destroyed: PyTorch releases memory until the process ends, and
/// CUDA with it.
class Gpus {
 public:
  static constexpr int kMost = 64;

  Memory& of(int ordinal) {
    auto* made = made_.at(check(ordinal)).load(std::memory_order_acquire);
    if (made == nullptr) {
      std::lock_guard const guard(mutex_);
      made = made_[ordinal].load(std::memory_order_relaxed);
      if (made == nullptr) {
        made = make(ordinal);
        made_[ordinal].store(made, std::memory_order_release);
      }
    }
    return *made;
  }
  /// Calls `visit(memory)` for each allocator that was made.
  template <class Visit>
  void for_each(Visit&& visit) {
    for (auto const& made : made_) {
      if (auto* const memory = made.load(std::memory_order_acquire)) {
        visit(*memory);
      }
    }
  }
  void set_limit(int ordinal, double fraction) {
    std::lock_guard const guard(mutex_);
    if (made_.at(check(ordinal)).load() != nullptr) {
      throw std::logic_error(fmt::format(
          "msstream: the limit of GPU {} is fixed with its first allocation: set it before",
          ordinal));
    }
    fractions_[ordinal] = fraction;
  }

 private:
  static int check(int ordinal) {
    msstream::require(ordinal >= 0 && ordinal < kMost,
                      "msstream: GPU {}; expected one of the first {}",
                      ordinal,
                      kMost);
    return ordinal;
  }
  Memory* make(int ordinal) const {
    msstream::DeviceOptions<Cuda> options;
    options.runtime.ordinal = ordinal;
    if (fractions_[ordinal] != 0) {
      options.memory.limit_fraction = fractions_[ordinal];
    }
    Cuda::Visit const visit(ordinal);
    // Makes a runtime without the checker, even if MSSTREAM_CHECK is set: the checker would see
    // none of PyTorch's accesses.
    msstream::detail::AnyDevice const device(msstream::detail::make_backend<Cuda>(options.runtime),
                                             {options.reduce_waits,
                                              options.explain_waits,
                                              options.memory,
                                              options.matmul_precision,
                                              options.workspace_bytes,
                                              options.tune_products,
                                              options.tracker});
    return new Memory(msstream::Device<Cuda>(device.state()));
  }

  std::mutex mutex_;
  std::array<std::atomic<Memory*>, kMost> made_{};
  std::array<double, kMost> fractions_{};  ///< 0 if the environment sets the limit
};

Gpus& gpus() {
  static auto* const all = new Gpus;
  return *all;
}

/// Runs `work` and prints its exception to the standard error stream, for functions that must not
/// throw.
template <class Work>
void report_failure(char const* function, Work&& work) noexcept {
  try {
    work();
  } catch (std::exception const& error) {
    std::fprintf(stderr, "msstream: %s: %s\n", function, error.what());
  } catch (...) {
    std::fprintf(stderr, "msstream: %s failed\n", function);
  }
}

char* copy_of(std::string const& text) {
  auto* const copy = static_cast<char*>(std::malloc(text.size() + 1));
  if (copy != nullptr) {
    std::memcpy(copy, text.c_str(), text.size() + 1);
  }
  return copy;
}

}  // namespace

// Allocates memory on a GPU. Throws if there is none: PyTorch would use a null pointer as memory,
// and its C++ callers pass exceptions on to Python.
MSSTREAM_TORCH_API void* msstream_torch_malloc(ssize_t bytes, int device, cudaStream_t stream) {
  try {
    return gpus().of(device).allocate(static_cast<std::size_t>(bytes), Memory::kAlignment, stream);
  } catch (msstream::OutOfMemory const& error) {
    msstream::detail::throw_torch_out_of_memory(
        fmt::format("CUDA out of memory on GPU {}: msstream: {}", device, error.what()));
  }
}

// Frees memory on a GPU. Never throws, because PyTorch calls this function in destructors.
MSSTREAM_TORCH_API void msstream_torch_free(void* memory,
                                            ssize_t,
                                            int device,
                                            cudaStream_t stream) noexcept {
  report_failure(__func__, [&] { gpus().of(device).deallocate(memory, stream); });
}

/// Records that a stream uses memory. Does nothing for memory of another allocator.
MSSTREAM_TORCH_API void msstream_torch_record_stream(void* memory, cudaStream_t stream) {
  gpus().for_each([&](Memory& gpu) {
    if (gpu.has(memory)) {
      gpu.record_use(memory, stream);
    }
  });
}

/// Implements torch.cuda.empty_cache().
MSSTREAM_TORCH_API void msstream_torch_empty_cache() {
  gpus().for_each([](Memory& gpu) {
    msstream::detail::Backend::Visit const visit(gpu.device().engine().backend());
    gpu.device().state()->memory.return_cached_memory();
  });
}

/// Implements torch.cuda.set_per_process_memory_fraction().
MSSTREAM_TORCH_API void msstream_torch_set_memory_fraction(double fraction, int device) {
  msstream::require(fraction > 0 && fraction <= 1,
                    "msstream: a memory fraction of {}; expected more than 0 and at most 1",
                    fraction);
  gpus().set_limit(device, fraction);
}

/// Returns the memory snapshot of a GPU as JSON, without ranges and events unless `whole` is true;
/// null after a failure. The caller must free the text with msstream_torch_free_text().
MSSTREAM_TORCH_API char* msstream_torch_snapshot(int device, int whole) noexcept {
  char* json = nullptr;
  report_failure(__func__, [&] {
    auto const& gpu = gpus().of(device).device();
    auto const small = [&] {
      return msstream::MemorySnapshot{gpu.memory_statistics(), {}, {}, {}, gpu.memory_by_stream()};
    };
    json = copy_of((whole != 0 ? gpu.memory_snapshot() : small()).json());
  });
  return json;
}
MSSTREAM_TORCH_API void msstream_torch_free_text(char* text) noexcept {
  std::free(text);
}
