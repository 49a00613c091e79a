// A folder that goes with the test.
#pragma once

#include <fcntl.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "common/fd.h"

namespace cairn::test {

class Folder {
  public:
    Folder() {
        std::string form = (std::filesystem::temp_directory_path() / "cairn-unit-XXXXXX").string();
        if (::mkdtemp(form.data()) == nullptr) std::abort();
        path_ = form;
        fd_.reset(::open(form.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    }
    ~Folder() {
        std::error_code ignored;
        std::filesystem::remove_all(path_, ignored);
    }
    Folder(const Folder&) = delete;
    Folder& operator=(const Folder&) = delete;

    [[nodiscard]] int fd() const { return fd_.get(); }
    [[nodiscard]] const std::string& path() const { return path_; }
    [[nodiscard]] std::string operator/(const std::string& name) const { return path_ + "/" + name; }
    [[nodiscard]] std::string file(const std::string& name) const { return *this / name; }

  private:
    std::string path_;
    Fd fd_;
};

}  // namespace cairn::test
