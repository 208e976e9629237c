// Communicator: the operations that collectives are made of, over NCCL or MPI.
//
// Operations are enqueued on a stream and complete in its order, like kernels. Counts are in
// elements. Pointers are to device memory. All ranks make the same calls in the same order.
//
// All ranks make a communicator as a step of Ranks::Together. If one rank fails, the others notice
// and give up, and the half-made communicator is aborted. A later step may make another one.
#pragma once

#include <memory>
#include <string>

#include "ranks/ranks.h"
#include "workload/element.h"

namespace overlapbench {

class Communicator {
 public:
  virtual ~Communicator() = default;
  [[nodiscard]] virtual int rank() const = 0;
  [[nodiscard]] virtual int size() const = 0;

  virtual void AllReduceSum(Stream& stream, const void* send, void* receive, long count,
                            Element element) = 0;
  // `count` elements from each rank.
  virtual void AllGather(Stream& stream, const void* send, void* receive, long count,
                         Element element) = 0;
  // `count` elements to each rank.
  virtual void ReduceScatterSum(Stream& stream, const void* send, void* receive, long count,
                                Element element) = 0;
  virtual void Broadcast(Stream& stream, const void* send, void* receive, long count,
                         Element element, int root) = 0;
  // `count` elements to each rank.
  virtual void AllToAll(Stream& stream, const void* send, void* receive, long count,
                        Element element) = 0;
  // Sends to the next rank and receives from the previous one.
  virtual void ShiftRing(Stream& stream, const void* send, void* receive, long count,
                         Element element) = 0;
};

std::unique_ptr<Communicator> MakeMpiCommunicator(Ranks& ranks);
std::unique_ptr<Communicator> MakeNcclCommunicator(Ranks& ranks);
// Why NCCL is unavailable ("" if it is available), and its version.
std::string NcclUnavailable();
std::string NcclVersion();

}  // namespace overlapbench
