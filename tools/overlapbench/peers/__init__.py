"""Our kernels against PyTorch's, torch.compile's and Triton's: the parts of tools/peers.py.

cases           what is compared, and the figures: no GPU needed
report          the figures as text and as JSON, and reading that back
chart           the figures as pictures, with Altair
timing          alternating samples with a cold cache, on a GPU
contestants     each peer as a function of the same tensors, and the oracle in double precision
triton_kernels  the Triton versions
"""
