// Numbers that the tool shares with the processes it forks: zero at first, written by whoever.
#pragma once

#include <sys/mman.h>

#include <atomic>
#include <cstddef>

namespace cairn::restart {

template <class T>
class SharedArray {
  public:
    // Made before the forest is forked.
    explicit SharedArray(std::size_t count) : count_(count), size_((count + 1) * sizeof(std::atomic<T>)) {
        void* memory = ::mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        items_ = memory == MAP_FAILED ? nullptr : static_cast<std::atomic<T>*>(memory);
    }
    SharedArray(const SharedArray&) = delete;
    SharedArray& operator=(const SharedArray&) = delete;
    ~SharedArray() {
        if (items_ != nullptr) ::munmap(static_cast<void*>(items_), size_);
    }
    // Null: no memory, or no such item.
    [[nodiscard]] std::atomic<T>* at(std::size_t index) const {
        return items_ == nullptr || index >= count_ ? nullptr : items_ + index;
    }

  private:
    static_assert(std::atomic<T>::is_always_lock_free);
    std::size_t count_, size_;
    std::atomic<T>* items_ = nullptr;
};

}  // namespace cairn::restart
