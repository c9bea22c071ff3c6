// SPDX-License-Identifier: Apache-2.0
#include "fake_nccl.hpp"

#include "fake_device.hpp"

#include <nccl.h>

#include <fmt/core.h>

#include <condition_variable>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <utility>

/// The ranks of a communicator.
struct Clique {
  int size = 0;
  int arrived = 0;
  std::map<std::string, int> connecting;  ///< ranks at the first collective of each kind
  std::vector<std::size_t> window_bytes;  ///< of the n-th window of each rank
};

struct ncclComm {
  std::shared_ptr<Clique> clique;
  int rank = 0;
  bool is_aborted = false;
  bool is_finalized = false;
  bool has_ended = false;
  int calls_in_progress = 0;
  int graphs = 0;       ///< captured collectives whose graphs live
  int destructors = 0;  ///< captured collectives that threads of CUDA are yet to destroy
  std::set<std::string> connected;
  std::size_t window_count = 0;  ///< also those that have ended
  std::set<ncclWindow_t> windows;
  std::pair<int, int> blocks_and_policy;
};

namespace fake_nccl {
namespace {

/// Everything that the fake knows. Never destroyed, because threads may still be in calls when the
/// process ends.
struct State {
  std::mutex mutex;
  std::condition_variable changed;
  std::map<std::string, std::shared_ptr<Clique>> cliques;
  std::vector<std::unique_ptr<ncclComm>> comms;  ///< also those that have ended
  std::map<std::string, std::uint64_t, std::less<>> calls;
  std::vector<std::string> misuses;
  std::string failing;
  int failing_rank = -1;
  int ids = 0;
  int constructing = 0;
  bool ends_constructors = false;
  int ending = 0;
  bool holds_ends = false;
  bool holds_deregistrations = false;
};

State& state() {
  static auto* const made = new State;
  return *made;
}

using Lock = std::unique_lock<std::mutex>;

ncclResult_t misuse(State& all, std::string sentence) {
  all.misuses.push_back(std::move(sentence));
  return ncclInvalidArgument;
}

/// Counts a call, and returns whether it may go on.
ncclResult_t begin(State& all, char const* name, ncclComm_t comm) {
  ++all.calls[name];
  if (comm == nullptr || comm->has_ended) {
    return misuse(all, fmt::format("{} of a communicator that has ended", name));
  }
  return all.failing == name && all.failing_rank == comm->rank ? ncclInternalError : ncclSuccess;
}

/// Waits, at the first collective of a kind, until all ranks have come to it.
ncclResult_t connect(State& all, Lock& lock, std::string const& kind, ncclComm& comm) {
  if (!comm.connected.insert(kind).second) {
    return ncclSuccess;
  }
  auto& came = comm.clique->connecting[kind];
  ++came;
  all.changed.notify_all();
  all.changed.wait(lock, [&] { return came % comm.clique->size == 0 || comm.is_aborted; });
  return comm.is_aborted ? ncclSystemError : ncclSuccess;
}

/// Lets other threads go on for a while, as a long call does.
void take_a_while() {
  for (int i = 0; i < 1000; ++i) {
    std::this_thread::yield();
  }
}

/// Returns what a graph with a collective keeps. NCCL gets it back by a destructor which CUDA calls
/// on a thread of its own, some time after the graph has ended.
std::shared_ptr<void> captured_plan(ncclComm& comm) {
  auto& all = state();
  Lock const lock(all.mutex);
  ++comm.graphs;
  return {static_cast<void*>(&comm), [&all, &comm](void*) {
            {
              Lock const guard(all.mutex);
              --comm.graphs;
              ++comm.destructors;
            }
            std::thread([&all, &comm] {
              take_a_while();
              Lock const guard(all.mutex);
              if (comm.has_ended) {
                static_cast<void>(misuse(all, "a graph outlives its communicator"));
              }
              --comm.destructors;
              all.changed.notify_all();
            }).detach();
          }};
}

ncclResult_t collective(char const* name, ncclComm_t comm, cudaStream_t stream) {
  auto& all = state();
  Lock lock(all.mutex);
  if (auto const result = begin(all, name, comm); result != ncclSuccess) {
    return result;
  }
  ++comm->calls_in_progress;
  auto const result = connect(all, lock, name, *comm);
  --comm->calls_in_progress;
  all.changed.notify_all();
  if (result != ncclSuccess) {
    return result;
  }
  lock.unlock();
  auto& device = fake_cuda::FakeDevice::instance();
  std::lock_guard const guard(device.mutex);
  if (device.capture_of(stream) != nullptr) {
    device.retain(stream, captured_plan(*comm));
  }
  return device.enqueue(stream, [] {}) == cudaSuccess ? ncclSuccess : ncclSystemError;
}

[[nodiscard]] bool owns(void const* memory, std::size_t bytes) {
  auto& device = fake_cuda::FakeDevice::instance();
  std::lock_guard const guard(device.mutex);
  return device.owns(memory, bytes, fake_cuda::MemoryKind::device);
}

/// Waits until a communicator may end.
void wait_to_end(State& all, Lock& lock, ncclComm& comm) {
  ++all.ending;
  bool const is_held = all.holds_ends;
  all.changed.wait(lock, [&] {
    return !all.holds_ends && comm.graphs + comm.destructors + comm.calls_in_progress == 0;
  });
  if (is_held) {
    lock.unlock();
    take_a_while();
    lock.lock();
  }
  --all.ending;
  all.changed.notify_all();
}

}  // namespace

int live() {
  auto& all = state();
  Lock const lock(all.mutex);
  int count = 0;
  for (auto const& comm : all.comms) {
    count += comm->has_ended ? 0 : 1;
  }
  return count;
}

std::uint64_t calls(std::string_view name) {
  auto& all = state();
  Lock const lock(all.mutex);
  auto const found = all.calls.find(name);
  return found != all.calls.end() ? found->second : 0;
}

int windows() {
  auto& all = state();
  Lock const lock(all.mutex);
  std::size_t count = 0;
  for (auto const& comm : all.comms) {
    count += comm->has_ended ? 0 : comm->windows.size();
  }
  return static_cast<int>(count);
}

std::pair<int, int> blocks_and_policy() {
  auto& all = state();
  Lock const lock(all.mutex);
  return all.comms.back()->blocks_and_policy;
}

std::vector<std::string> take_misuses() {
  auto& all = state();
  Lock const lock(all.mutex);
  return std::exchange(all.misuses, {});
}

void forget_connections() {
  auto& all = state();
  Lock const lock(all.mutex);
  for (auto const& comm : all.comms) {
    comm->connected.clear();
  }
}

FailingCall::FailingCall(std::string name, int rank) {
  auto& all = state();
  Lock const lock(all.mutex);
  all.failing = std::move(name);
  all.failing_rank = rank;
}
FailingCall::~FailingCall() {
  auto& all = state();
  Lock const lock(all.mutex);
  all.failing.clear();
}

int ending() {
  auto& all = state();
  Lock const lock(all.mutex);
  return all.ending;
}

void hold_ends() {
  auto& all = state();
  Lock const lock(all.mutex);
  all.holds_ends = true;
}

void release_ends() {
  auto& all = state();
  Lock const lock(all.mutex);
  all.holds_ends = false;
  all.changed.notify_all();
}

void hold_deregistrations() {
  auto& all = state();
  Lock const lock(all.mutex);
  all.holds_deregistrations = true;
}

void release_deregistrations() {
  auto& all = state();
  Lock const lock(all.mutex);
  all.holds_deregistrations = false;
  all.changed.notify_all();
}

void end_constructors() {
  auto& all = state();
  Lock lock(all.mutex);
  all.ends_constructors = true;
  all.changed.notify_all();
  all.changed.wait(lock, [&] { return all.constructing == 0; });
  all.ends_constructors = false;
}

}  // namespace fake_nccl

ncclResult_t ncclGetVersion(int* version) {
  *version = NCCL_VERSION_CODE;
  return ncclSuccess;
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  auto& all = fake_nccl::state();
  fake_nccl::Lock const lock(all.mutex);
  auto const text = fmt::format("{}", ++all.ids);
  std::memcpy(id->internal, text.c_str(), text.size() + 1);
  return ncclSuccess;
}

ncclResult_t ncclCommInitRank(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  return ncclCommInitRankConfig(comm, ranks, id, rank, &config);
}

ncclResult_t ncclCommInitRankConfig(
    ncclComm_t* comm, int ranks, ncclUniqueId id, int rank, ncclConfig_t* config) {
  auto& all = fake_nccl::state();
  fake_nccl::Lock lock(all.mutex);
  ++all.calls["ncclCommInitRankConfig"];
  if (all.failing == "ncclCommInitRankConfig" && all.failing_rank == rank) {
    return ncclInternalError;
  }
  if (config->blocking != 1) {
    return fake_nccl::misuse(all, "a communicator that does not block");
  }
  auto& clique = all.cliques[id.internal];
  if (clique == nullptr) {
    clique = std::make_shared<Clique>();
    clique->size = ranks;
  }
  auto const own = clique;
  ++own->arrived;
  ++all.constructing;
  all.changed.notify_all();
  all.changed.wait(lock, [&] { return own->arrived == own->size || all.ends_constructors; });
  --all.constructing;
  all.changed.notify_all();
  if (own->arrived != own->size) {
    return ncclSystemError;
  }
  all.comms.push_back(std::make_unique<ncclComm>());
  *comm = all.comms.back().get();
  (*comm)->clique = own;
  (*comm)->rank = rank;
  (*comm)->blocks_and_policy = {config->maxCTAs, config->CTAPolicy};
  return ncclSuccess;
}

ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  auto& all = fake_nccl::state();
  fake_nccl::Lock lock(all.mutex);
  if (auto const result = fake_nccl::begin(all, "ncclCommFinalize", comm); result != ncclSuccess) {
    return result;
  }
  if (comm->graphs != 0) {
    static_cast<void>(fake_nccl::misuse(all, "ncclCommFinalize waits for a captured graph"));
  }
  fake_nccl::wait_to_end(all, lock, *comm);
  comm->is_finalized = true;
  return ncclSuccess;
}

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  auto& all = fake_nccl::state();
  fake_nccl::Lock lock(all.mutex);
  if (auto const result = fake_nccl::begin(all, "ncclCommDestroy", comm); result != ncclSuccess) {
    return result;
  }
  if (!comm->is_finalized) {
    return fake_nccl::misuse(all, "ncclCommDestroy without ncclCommFinalize");
  }
  fake_nccl::wait_to_end(all, lock, *comm);
  comm->has_ended = true;
  return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t comm) {
  auto& all = fake_nccl::state();
  fake_nccl::Lock lock(all.mutex);
  if (auto const result = fake_nccl::begin(all, "ncclCommAbort", comm); result != ncclSuccess) {
    return result;
  }
  comm->is_aborted = true;
  all.changed.notify_all();
  fake_nccl::wait_to_end(all, lock, *comm);
  comm->has_ended = true;
  return ncclSuccess;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* error) {
  auto& all = fake_nccl::state();
  fake_nccl::Lock const lock(all.mutex);
  *error = ncclSuccess;
  return fake_nccl::begin(all, "ncclCommGetAsyncError", comm);
}

ncclResult_t ncclMemAlloc(void** memory, std::size_t bytes) {
  {
    auto& all = fake_nccl::state();
    fake_nccl::Lock const lock(all.mutex);
    if (all.failing == "ncclMemAlloc") {
      all.failing.clear();
      return ncclSystemError;
    }
  }
  return cudaMalloc(memory, bytes) == cudaSuccess ? ncclSuccess : ncclSystemError;
}
ncclResult_t ncclMemFree(void* memory) {
  return cudaFree(memory) == cudaSuccess ? ncclSuccess : ncclSystemError;
}
ncclResult_t ncclCommWindowRegister(
    ncclComm_t comm, void* memory, std::size_t bytes, ncclWindow_t* window, int flags) {
  bool const is_owned = fake_nccl::owns(memory, bytes);
  auto& all = fake_nccl::state();
  fake_nccl::Lock lock(all.mutex);
  constexpr char const* kName = "ncclCommWindowRegister";
  if (auto const result = fake_nccl::begin(all, kName, comm); result != ncclSuccess) {
    return result;
  }
  if (!is_owned || flags != NCCL_WIN_COLL_SYMMETRIC) {
    return fake_nccl::misuse(all, fmt::format("{} of other memory, or not symmetric", kName));
  }
  auto& sizes = comm->clique->window_bytes;
  auto const number = comm->window_count++;
  if (number == sizes.size()) {
    sizes.push_back(bytes);
  } else if (sizes.at(number) != bytes) {
    return fake_nccl::misuse(all,
                             fmt::format("{} of {} and {} bytes", kName, sizes[number], bytes));
  }
  ++comm->calls_in_progress;
  auto const result = fake_nccl::connect(all, lock, fmt::format("{} {}", kName, number), *comm);
  --comm->calls_in_progress;
  all.changed.notify_all();
  if (result == ncclSuccess) {
    *window = reinterpret_cast<ncclWindow_t>(number + 1);
    comm->windows.insert(*window);
  }
  return result;
}
ncclResult_t ncclCommWindowDeregister(ncclComm_t comm, ncclWindow_t window) {
  auto& all = fake_nccl::state();
  fake_nccl::Lock lock(all.mutex);
  if (auto const result = fake_nccl::begin(all, "ncclCommWindowDeregister", comm);
      result != ncclSuccess) {
    return result;
  }
  ++comm->calls_in_progress;
  all.changed.wait(lock, [&] { return !all.holds_deregistrations || comm->is_aborted; });
  --comm->calls_in_progress;
  all.changed.notify_all();
  return comm->windows.erase(window) == 1
             ? ncclSuccess
             : fake_nccl::misuse(all, "ncclCommWindowDeregister of no window");
}

char const* ncclGetErrorString(ncclResult_t result) {
  return result == ncclSuccess ? "no error" : "an error of the fake NCCL";
}
char const* ncclGetLastError(ncclComm_t) {
  return "";
}

ncclResult_t ncclAllReduce(void const*,
                           void*,
                           std::size_t,
                           ncclDataType_t,
                           ncclRedOp_t,
                           ncclComm_t comm,
                           cudaStream_t stream) {
  return fake_nccl::collective("ncclAllReduce", comm, stream);
}
ncclResult_t ncclReduceScatter(void const*,
                               void*,
                               std::size_t,
                               ncclDataType_t,
                               ncclRedOp_t,
                               ncclComm_t comm,
                               cudaStream_t stream) {
  return fake_nccl::collective("ncclReduceScatter", comm, stream);
}
ncclResult_t ncclAllGather(
    void const*, void*, std::size_t, ncclDataType_t, ncclComm_t comm, cudaStream_t stream) {
  return fake_nccl::collective("ncclAllGather", comm, stream);
}
ncclResult_t ncclAlltoAll(
    void const*, void*, std::size_t, ncclDataType_t, ncclComm_t comm, cudaStream_t stream) {
  return fake_nccl::collective("ncclAlltoAll", comm, stream);
}
ncclResult_t ncclBroadcast(
    void const*, void*, std::size_t, ncclDataType_t, int, ncclComm_t comm, cudaStream_t stream) {
  return fake_nccl::collective("ncclBroadcast", comm, stream);
}
// Calls of pairs connect no GPUs: the library has connected all of them before, by an all-to-all.
ncclResult_t ncclSend(
    void const*, std::size_t, ncclDataType_t, int, ncclComm_t comm, cudaStream_t) {
  auto& all = fake_nccl::state();
  fake_nccl::Lock const lock(all.mutex);
  return fake_nccl::begin(all, "ncclSend", comm);
}
ncclResult_t ncclRecv(void*, std::size_t, ncclDataType_t, int, ncclComm_t comm, cudaStream_t) {
  auto& all = fake_nccl::state();
  fake_nccl::Lock const lock(all.mutex);
  return fake_nccl::begin(all, "ncclRecv", comm);
}
ncclResult_t ncclGroupStart() {
  return ncclSuccess;
}
ncclResult_t ncclGroupEnd() {
  return ncclSuccess;
}
