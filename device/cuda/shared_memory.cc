#include "device/cuda/shared_memory.h"

#include <cudaTypedefs.h>
#include <fmt/core.h>

#include <bit>
#include <cstdint>
#include <utility>

#include "device/cuda/cuda_check.h"

namespace overlapbench {
namespace {

constexpr auto kHandleType = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;

// The driver's calls, looked up once each.
struct Driver {
  template <class Function>
  static Function Find(const char* symbol) {
    constexpr unsigned kSinceCuda = 10020;
    return reinterpret_cast<Function>(DriverEntryPoint(symbol, kSinceCuda));
  }
  PFN_cuMemGetAllocationGranularity_v10020 granularity =
      Find<PFN_cuMemGetAllocationGranularity_v10020>("cuMemGetAllocationGranularity");
  PFN_cuMemCreate_v10020 create = Find<PFN_cuMemCreate_v10020>("cuMemCreate");
  PFN_cuMemRelease_v10020 release = Find<PFN_cuMemRelease_v10020>("cuMemRelease");
  PFN_cuMemAddressReserve_v10020 reserve =
      Find<PFN_cuMemAddressReserve_v10020>("cuMemAddressReserve");
  PFN_cuMemAddressFree_v10020 free = Find<PFN_cuMemAddressFree_v10020>("cuMemAddressFree");
  PFN_cuMemMap_v10020 map = Find<PFN_cuMemMap_v10020>("cuMemMap");
  PFN_cuMemUnmap_v10020 unmap = Find<PFN_cuMemUnmap_v10020>("cuMemUnmap");
  PFN_cuMemSetAccess_v10020 set_access = Find<PFN_cuMemSetAccess_v10020>("cuMemSetAccess");
  PFN_cuMemExportToShareableHandle_v10020 export_to =
      Find<PFN_cuMemExportToShareableHandle_v10020>("cuMemExportToShareableHandle");
  PFN_cuMemImportFromShareableHandle_v10020 import_from =
      Find<PFN_cuMemImportFromShareableHandle_v10020>("cuMemImportFromShareableHandle");
};

CUmemLocation CurrentGpu() {
  int ordinal = 0;
  CUDA_CHECK(cudaGetDevice(&ordinal));
  return {CU_MEM_LOCATION_TYPE_DEVICE, ordinal};
}

CUmemAllocationProp Properties() {
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.requestedHandleTypes = kHandleType;
  properties.location = CurrentGpu();
  return properties;
}

// Physical memory. Mappings keep it alive, so the handle may be released before them.
class Allocation {
 public:
  Allocation(const Driver& driver, CUmemGenericAllocationHandle handle)
      : driver_(driver), handle_(handle) {}
  ~Allocation() { driver_.release(handle_); }
  Allocation(const Allocation&) = delete;
  Allocation& operator=(const Allocation&) = delete;

  // Maps it into this process, for the current GPU to read and write.
  [[nodiscard]] Buffer Map(std::size_t bytes) const {
    CUdeviceptr address = 0;
    ThrowIfDriverFailed(driver_.reserve(&address, bytes, 0, 0, 0), "cuMemAddressReserve");
    const CUresult mapped = driver_.map(address, bytes, 0, handle_, 0);
    if (mapped != CUDA_SUCCESS) driver_.free(address, bytes);
    ThrowIfDriverFailed(mapped, "cuMemMap");
    Buffer buffer(std::bit_cast<void*>(address), bytes,
                  [driver = driver_, address, bytes](void* /*memory*/) {
                    driver.unmap(address, bytes);
                    driver.free(address, bytes);
                  });
    const CUmemAccessDesc access{CurrentGpu(), CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    ThrowIfDriverFailed(driver_.set_access(address, bytes, &access, 1), "cuMemSetAccess");
    return buffer;
  }

 private:
  Driver driver_;
  CUmemGenericAllocationHandle handle_;
};

}  // namespace

std::string NoSharedMemory() {
  const auto attribute = reinterpret_cast<PFN_cuDeviceGetAttribute_v2000>(
      DriverEntryPoint("cuDeviceGetAttribute", 2000));
  int can = 0;
  ThrowIfDriverFailed(
      attribute(&can, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED,
                CurrentGpu().id),
      "cuDeviceGetAttribute");
  return can != 0 ? "" : "this GPU cannot share memory between processes by file descriptor";
}

std::size_t SharedMemoryBytes(std::size_t bytes) {
  const Driver driver;
  const CUmemAllocationProp properties = Properties();
  std::size_t step = 0;
  ThrowIfDriverFailed(driver.granularity(&step, &properties, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED),
                      "cuMemGetAllocationGranularity");
  return (bytes + step - 1) / step * step;
}

SharedMemory::SharedMemory(std::size_t bytes) {
  const Driver driver;
  const std::size_t whole_bytes = SharedMemoryBytes(bytes);
  const CUmemAllocationProp properties = Properties();
  CUmemGenericAllocationHandle handle = 0;
  ThrowIfDriverFailed(driver.create(&handle, whole_bytes, &properties, 0),
                      fmt::format("cuMemCreate of {}", FormatBytes(static_cast<double>(bytes))));
  const Allocation allocation(driver, handle);
  int descriptor = -1;
  ThrowIfDriverFailed(driver.export_to(&descriptor, handle, kHandleType, 0),
                      "cuMemExportToShareableHandle");
  descriptor_ = Descriptor(descriptor);
  buffer_ = allocation.Map(whole_bytes);
}

Buffer MapShared(const Descriptor& descriptor, std::size_t bytes) {
  const Driver driver;
  CUmemGenericAllocationHandle handle = 0;
  void* const os_handle = std::bit_cast<void*>(static_cast<std::intptr_t>(descriptor.get()));
  ThrowIfDriverFailed(driver.import_from(&handle, os_handle, kHandleType),
                      "cuMemImportFromShareableHandle");
  return Allocation(driver, handle).Map(SharedMemoryBytes(bytes));
}

}  // namespace overlapbench
