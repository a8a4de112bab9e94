"""`tandem pairs`: what is known, what is here, what could ride together."""
