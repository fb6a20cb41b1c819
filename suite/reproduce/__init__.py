"""Does a stored result hold here and now? ``python -m suite.reproduce RESULT`` runs it again and says."""
