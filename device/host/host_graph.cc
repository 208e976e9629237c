#include "device/host/host_graph.h"

namespace overlapbench {
namespace {

class HostGraph : public Graph {
 public:
  HostGraph(std::unique_ptr<HostStream> origin, const std::function<void(Stream&)>& enqueue)
      : origin_(std::move(origin)) {
    origin_->RecordInto(recording_);
    const std::shared_ptr<void> ended(nullptr, [this](void*) { recording_->End(); });
    enqueue(*origin_);
  }
  // `stream` may be of any class, so the origin works in its place.
  void Launch(Stream& stream) override {
    HostEvent begin(false);
    HostEvent end(false);
    stream.Record(begin);
    origin_->Wait(begin);
    recording_->Repeat();
    origin_->Record(end);
    stream.Wait(end);
  }

 private:
  std::unique_ptr<HostStream> origin_;
  std::shared_ptr<HostRecording> recording_ = std::make_shared<HostRecording>();
};

}  // namespace

std::unique_ptr<Graph> RecordHostGraph(std::unique_ptr<HostStream> origin,
                                       const std::function<void(Stream&)>& enqueue) {
  return std::make_unique<HostGraph>(std::move(origin), enqueue);
}

}  // namespace overlapbench
