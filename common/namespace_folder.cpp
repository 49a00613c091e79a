#include "common/namespace_folder.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <string_view>

namespace cairn::proc {

NamespaceFolder::NamespaceFolder(const std::string& process)
    : folder_(::open((process + "/ns").c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC)) {}

NamespaceFolder::NamespaceFolder(const Fd& process)
    : folder_(process ? ::openat(process.get(), "ns", O_PATH | O_DIRECTORY | O_CLOEXEC) : -1) {}

std::uint64_t NamespaceFolder::number_of(const char* name) const {
    std::array<char, 64> text = {};
    const ssize_t length = folder_ ? ::readlinkat(folder_.get(), name, text.data(), text.size()) : -1;
    const std::string_view link(text.data(), static_cast<std::size_t>(std::max(length, ssize_t{0})));
    const auto digits = link.find('[');
    std::uint64_t number = 0;
    if (digits != std::string_view::npos)
        std::from_chars(link.data() + digits + 1, link.data() + link.size(), number);
    return number;
}

}  // namespace cairn::proc
