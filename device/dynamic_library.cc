#include "device/dynamic_library.h"

#include <dlfcn.h>
#include <fmt/core.h>

#include <utility>

#include "device/error.h"

namespace overlapbench {
namespace {

// The first folder is "": wherever the dynamic linker looks. One that is there but broken is an
// error: another version must not take its place unnoticed.
void* Open(const std::string& need, const std::string& file) {
  std::string reason;
  for (const char* folder : {"", "/usr/local/cuda/lib64/", "/usr/local/cuda/lib/",
                             "/usr/local/cuda/extras/CUPTI/lib64/"}) {
    if (void* library = dlopen((folder + file).c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
    const char* text = dlerror();
    if (text == nullptr) continue;
    if (reason.empty()) reason = text;
    if (!reason.ends_with("No such file or directory")) break;
  }
  throw Error(fmt::format("{} ({}): install it, or name its folder in LD_LIBRARY_PATH", need,
                          reason.empty() ? file + " was not found" : reason));
}

}  // namespace

DynamicLibrary::DynamicLibrary(std::string need, std::string file)
    : need_(std::move(need)), file_(std::move(file)), library_(Open(need_, file_)) {}

DynamicLibrary::Symbol DynamicLibrary::Find(const char* symbol) const {
  return Symbol(dlsym(library_, symbol));
}

DynamicLibrary::Symbol DynamicLibrary::Need(const char* symbol) const {
  const Symbol found = Find(symbol);
  if (!found)
    throw Error(fmt::format("{} ({} has no {}): install a newer one", need_, file_, symbol));
  return found;
}

}  // namespace overlapbench
