// SPDX-License-Identifier: Apache-2.0
#include "comm/mail/mapped_memory_cuda.hpp"

#include <msstream/base/error.hpp>

#include <cuda_runtime_api.h>

#include <fmt/core.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <fstream>
#include <map>
#include <mutex>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <utility>

namespace msstream::comm::detail {
namespace {

using msstream::detail::Backend;

/// The first character of a text that has no handle but the reason why there is none.
constexpr char kFailed = '!';

void check(cudaError_t code, char const* call) {
  if (code != cudaSuccess) {
    cudaGetLastError();
    throw CudaError(static_cast<int>(code), cudaGetErrorString(code), call);
  }
}

/// Returns a text that differs between hosts, and between starts of one.
[[nodiscard]] std::string host_text() {
  std::array<char, 256> name{};
  ::gethostname(name.data(), name.size() - 1);
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string boot;
  std::getline(file, boot);
  return fmt::format("{} {}", name.data(), boot);
}
/// Returns a text that no other process has, also none whose numbers are of another namespace.
[[nodiscard]] std::string process_text() {
  static auto const token = [] {
    std::random_device random;
    return fmt::format("{:08x}{:08x}{:08x}{:08x}", random(), random(), random(), random());
  }();
  return fmt::format("{}-{}", ::getpid(), token);  // a child of fork() has another number
}
[[nodiscard]] std::string gpu_text(int ordinal) {
  std::array<char, 32> id{};
  check(cudaDeviceGetPCIBusId(id.data(), static_cast<int>(id.size()), ordinal),
        "cudaDeviceGetPCIBusId");
  return id.data();
}

/// The place of a rank, as a text of three lines.
struct Place {
  std::string host;
  std::string process;
  std::string gpu;

  [[nodiscard]] static Place of(Backend& runtime) {
    return {host_text(), process_text(), gpu_text(runtime.ordinal())};
  }
  [[nodiscard]] static std::optional<Place> read(std::string const& text) {
    auto const first = text.find('\n');
    auto const second = first == std::string::npos ? first : text.find('\n', first + 1);
    if (second == std::string::npos) {
      return std::nullopt;
    }
    return Place{
        text.substr(0, first), text.substr(first + 1, second - first - 1), text.substr(second + 1)};
  }
  [[nodiscard]] std::string text() const { return host + '\n' + process + '\n' + gpu; }
};

/// Whether this process sees the GPU, and this rank's reaches its memory over NVLink.
[[nodiscard]] bool reaches(int own, std::string const& gpu) {
  int other = 0;
  int can_access = 0;
  int has_atomics = 0;
  bool const is_known =
      cudaDeviceGetByPCIBusId(&other, gpu.c_str()) == cudaSuccess && other != own &&
      cudaDeviceCanAccessPeer(&can_access, own, other) == cudaSuccess &&
      cudaDeviceGetP2PAttribute(&has_atomics, cudaDevP2PAttrNativeAtomicSupported, own, other) ==
          cudaSuccess;
  cudaGetLastError();
  return is_known && can_access != 0 && has_atomics != 0;
}

/// Lets kernels of the current GPU reach the memory of another one, for the whole process.
void enable_access(std::string const& gpu) {
  int other = 0;
  check(cudaDeviceGetByPCIBusId(&other, gpu.c_str()), "cudaDeviceGetByPCIBusId");
  auto const code = cudaDeviceEnablePeerAccess(other, 0);
  if (code == cudaErrorPeerAccessAlreadyEnabled) {
    cudaGetLastError();
    return;
  }
  check(code, "cudaDeviceEnablePeerAccess");
}

[[nodiscard]] std::string hex_of(cudaIpcMemHandle_t const& handle) {
  std::string text;
  for (auto const byte : handle.reserved) {
    text += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  }
  return text;
}
[[nodiscard]] cudaIpcMemHandle_t handle_of(std::string_view text) {
  cudaIpcMemHandle_t handle{};
  for (std::size_t i = 0; i < sizeof(handle.reserved) && 2 * i + 1 < text.size(); ++i) {
    unsigned byte = 0;
    std::from_chars(text.data() + 2 * i, text.data() + 2 * i + 2, byte, 16);
    handle.reserved[i] = static_cast<char>(byte);
  }
  return handle;
}

/// Throws NotMapped if a rank has told that it failed.
void require_none_failed(std::vector<std::string> const& texts, std::size_t bytes) {
  for (std::size_t rank = 0; rank < texts.size(); ++rank) {
    if (!texts[rank].empty() && texts[rank].front() == kFailed) {
      throw NotMapped(fmt::format("{} bytes on rank {}: {}", bytes, rank, texts[rank].substr(1)));
    }
  }
}

}  // namespace

bool are_mapped(Backend& runtime, Peers& peers) {
  runtime.make_current();
  auto const own = Place::of(runtime);
  std::vector<Place> places;
  bool is_possible = peers.size() <= Mailboxes::kMostRanks;
  for (auto const& text : peers.exchange(own.text())) {
    auto const place = Place::read(text);
    is_possible = is_possible && place && place->host == own.host;
    places.push_back(place.value_or(Place{}));
  }
  for (int rank = 0; is_possible && rank < peers.size(); ++rank) {
    auto const& place = places[static_cast<std::size_t>(rank)];
    is_possible = rank == peers.rank() || reaches(runtime.ordinal(), place.gpu);
    if (is_possible && rank != peers.rank() && place.process == own.process) {
      try {
        enable_access(place.gpu);
      } catch (CudaError const&) {
        is_possible = false;
      }
    }
  }
  auto const all = peers.exchange(is_possible ? "mapped" : "not mapped");
  return std::ranges::count(all, "mapped") == peers.size();
}

/// The memory of one rank.
class MappedMemory::Own {
 public:
  Own(std::shared_ptr<Backend> runtime, std::size_t bytes, std::size_t zeros)
      : runtime_(std::move(runtime)),
        bytes_(bytes),
        memory_(static_cast<std::byte*>(runtime_->allocate_device(bytes))) {
    try {
      clear(zeros);
    } catch (...) {
      runtime_->free_device(memory_, bytes_);
      throw;
    }
  }
  ~Own() {
    if (!home_.is_left()) {
      runtime_->free_device(memory_, bytes_);
    }
  }
  Own(Own const&) = delete;
  Own& operator=(Own const&) = delete;

  [[nodiscard]] std::byte* memory() const noexcept { return memory_; }

 private:
  void clear(std::size_t bytes) {
    if (bytes == 0) {
      return;
    }
    auto* const stream = runtime_->create_stream(StreamPriority::normal, {});
    auto code = cudaMemsetAsync(memory_, 0, bytes, static_cast<cudaStream_t>(stream));
    if (code == cudaSuccess) {
      code = cudaStreamSynchronize(static_cast<cudaStream_t>(stream));
    }
    runtime_->destroy_stream(stream);
    check(code, "cudaMemsetAsync");
  }

  std::shared_ptr<Backend> runtime_;
  msstream::detail::HomeProcess home_{RuntimeLife::driver};
  std::size_t bytes_;
  std::byte* memory_;
};

/// The memory that ranks which are threads of this process have offered each other. Thread-safe.
class MappedMemory::OfThreads {
 public:
  static OfThreads& of_process() {
    static OfThreads offers;
    return offers;
  }
  /// Returns the key under which other threads find the memory, as long as there is any owner.
  [[nodiscard]] std::string offer(std::shared_ptr<Own> const& own) {
    std::lock_guard const guard(mutex_);
    std::erase_if(offers_, [](auto const& offer) { return offer.second.expired(); });
    auto key = fmt::format("{}", ++made_);
    offers_.emplace(key, own);
    return key;
  }
  [[nodiscard]] std::shared_ptr<Own> find(std::string const& key) {
    std::lock_guard const guard(mutex_);
    auto const offer = offers_.find(key);
    return offer == offers_.end() ? nullptr : offer->second.lock();
  }

 private:
  std::mutex mutex_;
  std::map<std::string, std::weak_ptr<Own>> offers_;
  std::uint64_t made_ = 0;
};

MappedMemory::MappedMemory(std::shared_ptr<Backend> const& runtime,
                           Peers& peers,
                           std::size_t bytes,
                           std::size_t zeros)
    : runtime_(runtime) {
  // The driver maps memory of other processes in pages of this size, from the beginning of one.
  constexpr std::size_t kPage = std::size_t{2} << 20U;
  auto const whole = (bytes + kPage - 1) / kPage * kPage;
  std::string offer;
  try {
    owners_.push_back(std::make_shared<Own>(runtime, whole, zeros));
    cudaIpcMemHandle_t handle{};
    // A driver may refuse handles for other processes, which threads do not need.
    bool const has_handle = cudaIpcGetMemHandle(&handle, owners_.front()->memory()) == cudaSuccess;
    cudaGetLastError();
    offer = fmt::format("{} {} {}",
                        process_text(),
                        OfThreads::of_process().offer(owners_.front()),
                        has_handle ? hex_of(handle) : std::string("-"));
  } catch (std::exception const& error) {
    offer = kFailed + std::string(error.what());
  }
  auto const offers = peers.exchange(offer);
  require_none_failed(offers, bytes);
  std::string result;
  try {
    for (int rank = 0; rank < peers.size(); ++rank) {
      auto const& text = offers[static_cast<std::size_t>(rank)];
      auto& memory = of_rank_[static_cast<std::size_t>(rank)];
      auto const first = text.find(' ');
      auto const second = text.find(' ', first + 1);
      if (rank == peers.rank()) {
        memory = owners_.front()->memory();
      } else if (text.substr(0, first) == process_text()) {
        owners_.push_back(OfThreads::of_process().find(text.substr(first + 1, second - first - 1)));
        if (owners_.back() == nullptr) {
          throw std::runtime_error(fmt::format("the memory of rank {} is gone", rank));
        }
        memory = owners_.back()->memory();
      } else {
        void* opened = nullptr;
        check(cudaIpcOpenMemHandle(
                  &opened, handle_of(text.substr(second + 1)), cudaIpcMemLazyEnablePeerAccess),
              "cudaIpcOpenMemHandle");
        opened_.push_back(opened);
        memory = static_cast<std::byte*>(opened);
      }
    }
  } catch (std::exception const& error) {
    result = kFailed + std::string(error.what());
  }
  try {
    // Until all ranks have come here, each has its own memory, which the others look up.
    require_none_failed(peers.exchange(result), bytes);
  } catch (...) {
    close();
    throw;
  }
}

MappedMemory::~MappedMemory() {
  close();
}

void MappedMemory::close() noexcept {
  if (home_.is_left() || opened_.empty()) {
    return;
  }
  try {
    runtime_->make_current();
  } catch (...) {
    return;  // the GPU is not usable any more
  }
  for (auto* const opened : opened_) {
    cudaIpcCloseMemHandle(opened);
  }
  cudaGetLastError();
}

}  // namespace msstream::comm::detail
