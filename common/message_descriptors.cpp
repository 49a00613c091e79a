#include "common/message_descriptors.h"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstring>

namespace cairn {
namespace {

struct alignas(cmsghdr) Beside {
    std::array<char, CMSG_SPACE(most_message_descriptors * sizeof(int))> bytes{};
};

msghdr message_of(iovec& data, Beside& beside, std::size_t size) {
    msghdr message{};
    message.msg_iov = &data;
    message.msg_iovlen = 1;
    message.msg_control = size == 0 ? nullptr : beside.bytes.data();
    message.msg_controllen = size;
    return message;
}

}  // namespace

ssize_t send_with(int socket, std::string_view text, std::span<const int> descriptors, int flags) {
    descriptors = descriptors.first(std::min(descriptors.size(), most_message_descriptors));
    Beside beside;
    iovec data{const_cast<char*>(text.data()), text.size()};  // sendmsg(2) changes nothing of it
    msghdr message = message_of(data, beside, descriptors.empty() ? 0 : CMSG_SPACE(descriptors.size_bytes()));
    if (!descriptors.empty()) {
        cmsghdr* const head = CMSG_FIRSTHDR(&message);
        head->cmsg_level = SOL_SOCKET;
        head->cmsg_type = SCM_RIGHTS;
        head->cmsg_len = CMSG_LEN(descriptors.size_bytes());
        std::memcpy(CMSG_DATA(head), descriptors.data(), descriptors.size_bytes());
    }
    return ::sendmsg(socket, &message, flags);
}

ssize_t receive_with(int socket, std::span<char> to, std::vector<Fd>& descriptors, int flags) {
    Beside beside;
    iovec data{to.data(), to.size()};
    msghdr message = message_of(data, beside, beside.bytes.size());
    const ssize_t size = ::recvmsg(socket, &message, flags | MSG_CMSG_CLOEXEC);
    if (size < 0) return size;
    for (const cmsghdr* head = CMSG_FIRSTHDR(&message); head != nullptr;
         head = CMSG_NXTHDR(&message, const_cast<cmsghdr*>(head))) {
        if (head->cmsg_level != SOL_SOCKET || head->cmsg_type != SCM_RIGHTS) continue;
        std::vector<int> numbers((head->cmsg_len - CMSG_LEN(0)) / sizeof(int));
        std::memcpy(numbers.data(), CMSG_DATA(head), numbers.size() * sizeof(int));
        for (const int number : numbers) descriptors.emplace_back(number);
    }
    return size;
}

}  // namespace cairn
