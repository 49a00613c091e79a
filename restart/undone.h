// What a restart has made outside of itself (processes, entries in a shared table, System V objects) and has
// to undo when it is given up.
#pragma once

#include <functional>
#include <memory>
#include <utility>

namespace cairn::restart {

// Owns a T, and calls `undo` on it at its end unless keep() was called. It can be moved, and the T stays
// where it is: pointers to it stay valid. Members of a struct end in the reverse of their order, so what has
// to be undone last is named first.
template <class T, auto undo>
class Undone {
  public:
    explicit Undone(T value) : value_(std::make_unique<T>(std::move(value))) {}
    Undone(Undone&&) noexcept = default;
    Undone& operator=(Undone&&) = delete;
    ~Undone() {
        if (value_ && !kept_) (void)std::invoke(undo, *value_);
    }

    // The programs go on: it is theirs now.
    void keep() { kept_ = true; }

    [[nodiscard]] T& operator*() const { return *value_; }
    [[nodiscard]] T* operator->() const { return value_.get(); }

  private:
    std::unique_ptr<T> value_;
    bool kept_ = false;
};

}  // namespace cairn::restart
