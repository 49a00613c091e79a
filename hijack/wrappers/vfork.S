// vfork returns twice, the second time on a stack that the child has used meanwhile: the return address is kept in a
// register (the kernel preserves all but rax, rcx and r11) and pushed anew. So is the slot of the birth.
    .text
    .globl vfork
    .type vfork, @function
    .globl __vfork
    .type __vfork, @function
vfork:
__vfork:
    .cfi_startproc
    endbr64
    subq $8, %rsp
    .cfi_adjust_cfa_offset 8
    call cairn_before_vfork
    addq $8, %rsp
    .cfi_adjust_cfa_offset -8
    movq %rax, %rsi
    popq %rdx
    .cfi_adjust_cfa_offset -8
    .cfi_register %rip, %rdx
    movl $58, %eax
    syscall
    pushq %rdx
    .cfi_adjust_cfa_offset 8
    .cfi_rel_offset %rip, 0
    movq %rax, %rdi
    subq $8, %rsp
    .cfi_adjust_cfa_offset 8
    call cairn_after_vfork
    addq $8, %rsp
    .cfi_adjust_cfa_offset -8
    ret
    .cfi_endproc
    .size vfork, . - vfork
    .size __vfork, . - __vfork
    .section .note.GNU-stack, "", @progbits
